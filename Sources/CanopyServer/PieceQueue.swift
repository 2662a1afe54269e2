internal import DequeModule
internal import Dispatch
internal import NIOCore

/// The connections of one event loop that wait for a turn: to encode a piece of a large reply, or to carry
/// out requests. Use it on that loop only.
///
/// They take turns, one piece or about a millisecond of requests each. After some pieces the loop does everything else that waits, input of
/// other connections first of all: so a connection waits for a part of a millisecond, however many others
/// ask for large replies or send many requests.
final class PieceQueue {
  /// The bytes that a connection encodes before another one has its turn.
  private static let pieceBytes = 64 * 1024
  /// The bytes that are encoded before the loop does something else.
  static let turnBytes = 256 * 1024

  private let loop: any EventLoop
  /// Calls its argument on the loop when the loop has looked for input.
  private let later: (@escaping () -> Void) -> Void
  private var connections: Deque<any TurnTaker> = []
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
  func append(_ connection: any TurnTaker) {
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
      left -= max(4096, connection.takeTurn(bytes: PieceQueue.pieceBytes))
    }
    if !connections.isEmpty { goOnLater() }
  }
}

/// A connection that waits for a turn.
protocol TurnTaker: AnyObject {
  /// Encodes and sends about so many bytes, or carries out requests, and asks for another turn if there is
  /// more.
  ///
  /// - Returns: the bytes that were encoded; `PieceQueue.turnBytes` for requests.
  func takeTurn(bytes: Int) -> Int
}
