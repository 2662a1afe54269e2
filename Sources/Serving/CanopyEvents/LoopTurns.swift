package import CanopyEngine
internal import DequeModule
package import NIOCore

/// The connections of one event loop that wait for a turn: to encode a piece of a large reply, or to carry
/// out requests. Use it on that loop only.
///
/// A turn is one piece, or about half a millisecond of requests. After one piece, or one turn of requests,
/// the loop looks for input of other connections. So they wait for one such step, however many connections ask
/// for large replies or send many requests.
///
/// Each network has one turn before any network has a second one, so an address does not get more turns by opening more
/// connections. Within the turns of a network its connections take turns. A connection from this machine counts as a
/// network of its own.
package final class LoopTurns {
  /// The bytes that a connection encodes in a turn: about half a millisecond of encoding and sending.
  private static let pieceBytes = 64 * 1024
  /// The bytes that are encoded before the loop looks for input.
  package static let turnBytes = pieceBytes

  /// The connections that have one turn before the others have a second one.
  enum Owner: Hashable {
    case network(String)
    case connection(ObjectIdentifier)

    init(_ group: TurnGroup) {
      self = group.network.map(Owner.network) ?? .connection(group.connection)
    }

    fileprivate init(_ connection: any TurnTaker) {
      self = connection.turnGroup.map(Owner.init) ?? .connection(ObjectIdentifier(connection))
    }
  }

  /// The connections that wait for memory before they wait for a turn.
  package private(set) lazy var shortage = ShortageQueue(self, loop)
  private let loop: any EventLoop
  /// Schedules a closure to run on the loop after the loop has read input.
  private let later: (@escaping () -> Void) -> Void
  /// The connections that wait, by the owner of their turns.
  #if !DEBUG
    @exclusivity(unchecked)
  #endif
  private var lanes: [Owner: Deque<any TurnTaker>] = [:]
  /// The owners that wait, in the order of their turns.
  #if !DEBUG
    @exclusivity(unchecked)
  #endif
  private var order: Deque<Owner> = []
  @exclusivity(unchecked) private var isDue = false

  /// - Parameter later: schedules a closure to run on the loop after the loop has read input.
  package init(loop: any EventLoop, later: @escaping (@escaping () -> Void) -> Void) {
    self.loop = loop
    self.later = later
  }

  package convenience init(loop: any EventLoop) {
    self.init(loop: loop) { LoopPoll.run(on: loop, $0) }
  }

  /// Gives a connection a turn. It must not be in the queue.
  package func append(_ connection: any TurnTaker) {
    loop.assertInEventLoop()
    let owner = Owner(connection)
    if lanes[owner] == nil { order.append(owner) }
    lanes[owner, default: []].append(connection)
    goOnLater()
  }

  /// Removes the connection whose turn it is.
  private func next() -> (any TurnTaker)? {
    guard let owner = order.popFirst(), let connection = lanes[owner]?.popFirst() else {
      return nil
    }
    if lanes[owner]?.isEmpty == false { order.append(owner) } else { lanes[owner] = nil }
    return connection
  }

  private func goOnLater() {
    guard !isDue else { return }
    isDue = true
    later { self.goOn() }
  }

  private func goOn() {
    isDue = false
    var left = LoopTurns.turnBytes
    while left > 0, let connection = next() {
      // A piece that is short costs something as well.
      left -= max(4096, connection.takeTurn(bytes: LoopTurns.pieceBytes))
    }
    if !order.isEmpty { goOnLater() }
  }
}

/// A connection that waits for a turn.
package protocol TurnTaker: AnyObject {
  /// The group in which the connection takes turns; nil for a group of its own.
  var turnGroup: TurnGroup? { get }

  /// Encodes and sends about so many bytes, or carries out requests, and asks for another turn if there is
  /// more.
  ///
  /// - Returns: the bytes that were encoded; `LoopTurns.turnBytes` for requests.
  func takeTurn(bytes: Int) -> Int
}
