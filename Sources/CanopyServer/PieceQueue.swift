internal import DequeModule
internal import Dispatch
internal import NIOCore

/// The connections of one event loop that have something to encode. Use it on that loop only.
///
/// They take turns, one piece each. After some pieces the loop does everything else that waits, input of
/// other connections first of all: so a connection waits for a part of a millisecond, however many others
/// ask for large replies.
final class PieceQueue {
  /// The bytes that a connection encodes before another one has its turn.
  private static let pieceBytes = 64 * 1024
  /// The bytes that are encoded before the loop does something else.
  private static let turnBytes = 256 * 1024

  private let loop: any EventLoop
  /// Calls its argument on the loop when the loop has looked for input.
  private let later: (@escaping () -> Void) -> Void
  private var connections: Deque<any PieceSender> = []
  private var isDue = false

  /// - Parameter later: calls its argument on the loop when the loop has looked for input.
  init(loop: any EventLoop, later: @escaping (@escaping () -> Void) -> Void) {
    self.loop = loop
    self.later = later
  }

  convenience init(loop: any EventLoop) {
    self.init(loop: loop) { body in
      // A task that a task of the loop adds runs before the loop looks for input. So it comes from outside.
      let bound = NIOLoopBound(body, eventLoop: loop)
      DispatchQueue.global().async { loop.execute { bound.value() } }
    }
  }

  /// Gives a connection a turn. It must not be in the queue.
  func append(_ connection: any PieceSender) {
    loop.assertInEventLoop()
    connections.append(connection)
    goOnLater()
  }

  private func goOnLater() {
    guard !isDue else { return }
    isDue = true
    later { self.goOn() }
  }

  private func goOn() {
    isDue = false
    var left = PieceQueue.turnBytes
    while left > 0, let connection = connections.popFirst() {
      // A piece that is short costs something as well.
      left -= max(4096, connection.sendPiece(bytes: PieceQueue.pieceBytes))
    }
    if !connections.isEmpty { goOnLater() }
  }
}

/// A connection that has something to encode.
protocol PieceSender: AnyObject {
  /// Encodes and sends about so many bytes, and asks for another turn if there is more.
  ///
  /// - Returns: the bytes that were encoded.
  func sendPiece(bytes: Int) -> Int
}
