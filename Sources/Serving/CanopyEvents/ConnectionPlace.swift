internal import CanopyAccounts
internal import CanopySystem
package import CanopyWire
package import NIOCore
internal import NIOExtras
internal import Synchronization

/// The place of a connection among those that the server allows, and what decides whether the connection may lose it to
/// a newcomer.
///
/// In the pipeline it does nothing: the handler of the protocol finds it there, removes it, and reports to it. Safe to
/// use from any thread.
package final class ConnectionPlace: ChannelOutboundHandler, RemovableChannelHandler, Sendable {
  package typealias OutboundIn = NIOAny

  /// The loss of a client when its connection ends. The connections with the least loss are ended first.
  package enum Standing: Int, Sendable, CaseIterable {
    /// It has never made a successful request.
    case new
    /// It has, and it can simply connect again.
    case used
    /// It is signed in, or holds subscriptions or on-disconnect writes.
    case kept
    /// It is the administrator's, and never ended.
    case administrator
  }

  let id: Int
  let network: RemoteNetwork
  private let channel: any Channel
  private let allowance: SharedAllowance
  private let used: Atomic<Int64>
  private let busy = Atomic(false)

  init(_ id: Int, _ channel: any Channel, from network: RemoteNetwork, _ allowance: SharedAllowance)
  {
    self.id = id
    self.channel = channel
    self.network = network
    self.allowance = allowance
    used = Atomic(RoughTime.now())
  }

  /// The place of the connection in whose pipeline a handler is; nil for one that a gate has not let in. Called on the
  /// loop of the connection.
  package static func find(in pipeline: ChannelPipeline) -> ConnectionPlace? {
    try? pipeline.syncOperations.handler(type: ConnectionPlace.self)
  }

  /// Removes and returns the place of the connection in whose pipeline a handler is, as `find` does.
  package static func take(from pipeline: ChannelPipeline) -> ConnectionPlace? {
    guard let place = find(in: pipeline) else { return nil }
    pipeline.syncOperations.removeHandler(place, promise: nil)
    return place
  }

  /// Notes that the client has sent something, or is answered. One store.
  package func noteUse() {
    used.store(RoughTime.now(), ordering: .relaxed)
  }

  /// Notes whether a request of the client is under way, which the client waits for and reads the answer of.
  package func setBusy(_ isBusy: Bool) {
    busy.store(isBusy, ordering: .relaxed)
  }

  /// Changes the standing. Takes a lock that all connections share.
  package func set(_ standing: Standing) {
    allowance.state.withLock { $0.move(id, of: network, to: standing) }
  }

  /// Ends the connection, because a newcomer needs its place. Requests that were received meanwhile are answered. A
  /// client that leaves the connection open is cut off.
  func end(_ error: WireError) {
    let channel = channel
    channel.eventLoop.execute {
      guard channel.isActive else { return }
      channel.pipeline.fireUserInboundEventTriggered(PlaceNeeded(error: error))
      channel.pipeline.fireUserInboundEventTriggered(ChannelShouldQuiesceEvent())
    }
    channel.eventLoop.scheduleTask(in: ConnectionPlace.endingTime) { channel.cutOff() }
  }

  func cutOff() { channel.cutOff() }

  /// The time in which an ended connection sends its last bytes.
  private static let endingTime = TimeAmount.seconds(1)
}

extension ConnectionPlace: PlaceHolder {
  var lastUse: Int64 { used.load(ordering: .relaxed) }
  var isBusy: Bool { busy.load(ordering: .relaxed) }
}

/// The event that precedes the end of a connection whose place a newcomer needs.
package struct PlaceNeeded: Sendable {
  /// The error for the client.
  package let error: WireError
}

/// The connections of one or more listeners, and the bounds on them.
final class SharedAllowance: Sendable {
  let state: Mutex<ConnectionAllowance<ConnectionPlace>>
  private let lastID = Atomic(0)

  init(connectionsMax: Int, perNetworkMax: Int) {
    state = Mutex(
      ConnectionAllowance(connectionsMax: connectionsMax, perNetworkMax: perNetworkMax))
  }

  func nextID() -> Int { lastID.wrappingAdd(1, ordering: .relaxed).newValue }
}
