internal import DequeModule
internal import Dispatch
package import NIOCore

/// The connections of one event loop that wait for a turn: to encode a piece of a large reply, or to carry
/// out requests. Use it on that loop only.
///
/// A turn is one piece, or about half a millisecond of requests. After one piece, or one turn of requests,
/// the loop looks for input of other connections. So they wait for one such step, however many connections ask
/// for large replies or send many requests.
package final class LoopTurns {
  /// The bytes that a connection encodes in a turn: about half a millisecond of encoding and sending.
  private static let pieceBytes = 64 * 1024
  /// The bytes that are encoded before the loop looks for input.
  package static let turnBytes = pieceBytes

  private let loop: any EventLoop
  /// Schedules a closure to run on the loop after the loop has read input.
  private let later: (@escaping () -> Void) -> Void
  private var connections: Deque<any TurnTaker> = []
  private var isDue = false

  /// - Parameter later: schedules a closure to run on the loop after the loop has read input.
  package init(loop: any EventLoop, later: @escaping (@escaping () -> Void) -> Void) {
    self.loop = loop
    self.later = later
  }

  package convenience init(loop: any EventLoop) {
    self.init(loop: loop) { body in
      // A task that a task of the loop adds runs before the loop looks for input. So another thread adds it, and only
      // when the tasks that wait now are done, such as those that send the output of this turn.
      let bound = NIOLoopBound(body, eventLoop: loop)
      loop.execute { DispatchQueue.global().async { loop.execute { bound.value() } } }
    }
  }

  /// Gives a connection a turn. It must not be in the queue.
  package func append(_ connection: any TurnTaker) {
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
    var left = LoopTurns.turnBytes
    while left > 0, let connection = connections.popFirst() {
      // A piece that is short costs something as well.
      left -= max(4096, connection.takeTurn(bytes: LoopTurns.pieceBytes))
    }
    if !connections.isEmpty { goOnLater() }
  }
}

/// A connection that waits for a turn.
package protocol TurnTaker: AnyObject {
  /// Encodes and sends about so many bytes, or carries out requests, and asks for another turn if there is
  /// more.
  ///
  /// - Returns: the bytes that were encoded; `LoopTurns.turnBytes` for requests.
  func takeTurn(bytes: Int) -> Int
}
