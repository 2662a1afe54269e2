internal import CanopyEngine
internal import CanopyEvents
internal import NIOCore

/// The pieces of large values: each is encoded in a turn, as those of other protocols are.
extension EventStream: TurnTaker {
  var turnGroup: TurnGroup? { connection.turns }

  /// Asks for a turn to encode a piece.
  func takeTurnLater() {
    guard !takesTurn else { return }
    takesTurn = true
    shared.turns.append(self)
  }

  func takeTurn(bytes: Int) -> Int {
    takesTurn = false
    // The stream may have ended.
    guard let waiting, let piece = output.take() else { return 0 }
    self.waiting = nil
    waiting.resume(returning: piece)
    return piece.readableBytes
  }
}
