internal import CanopyAccounts
package import CanopySession
internal import CanopySystem
internal import CanopyTree
package import CanopyWire
package import NIOCore
internal import NIOPosix
internal import Synchronization

/// Accepts connections as far as ``ConnectionAllowance`` permits, and keeps a list of those that are
/// open. Safe to use from any event loop.
package final class ConnectionGate: Sendable {
  private let allowance: SharedAllowance
  private let state = Mutex<[ObjectIdentifier: any Channel]>([:])

  /// - Parameters:
  ///   - connectionsMax: the most connections in all.
  ///   - perNetworkMax: the most connections of one remote network.
  package init(connectionsMax: Int, perNetworkMax: Int) {
    allowance = SharedAllowance(connectionsMax: connectionsMax, perNetworkMax: perNetworkMax)
  }

  /// Creates a gate for another listener, whose connections count for the same bounds.
  package init(sharingBoundsOf other: ConnectionGate) {
    allowance = other.allowance
  }

  /// The number of open connections.
  package var count: Int { state.withLock { $0.count } }

  /// The connections that were ended for newcomers since the start, of all listeners with the same bounds.
  package var endedCount: Int { allowance.state.withLock { $0.endedCount } }

  /// Accepts a connection, if necessary in the place of an idle one, which ends. Otherwise sends it an error and closes
  /// it. See ``ConnectionAllowance`` for the costs.
  ///
  /// - Parameters:
  ///   - shortage: the lack of memory; nil if there is enough.
  ///   - refusal: encodes the error for the protocol of the listener; nil for the line protocol.
  /// - Returns: whether the connection is accepted.
  package func enter(
    _ channel: any Channel, shortage: MemoryBudget.Shortage? = nil,
    refusal: ((WireError) -> ByteBuffer)? = nil
  ) -> Bool {
    let network = RemoteNetwork(channel.remoteAddress?.ipAddress ?? "")
    let place = ConnectionPlace(allowance.nextID(), channel, from: network, allowance)
    let admission = allowance.state.withLock {
      $0.enter(place.id, place, from: network, shortage: shortage, now: RoughTime.now())
    }
    switch admission {
    case .refused(let reason):
      let buffer = refusal?(reason.error) ?? ConnectionGate.line(reason.error)
      channel.writeAndFlush(buffer).whenComplete { _ in channel.close(promise: nil) }
      return false
    case .admitted(let ending, let cutOff):
      for other in ending { other.end(ConnectionGate.placeNeeded) }
      for other in cutOff { other.cutOff() }
    }
    let id = ObjectIdentifier(channel)
    state.withLock { $0[id] = channel }
    channel.closeFuture.whenComplete { _ in
      self.state.withLock { $0[id] = nil }
      self.allowance.state.withLock { $0.leave(place.id, of: network) }
    }
    // Fails only if the connection is gone.
    channel.pipeline.addHandler(place).whenFailure { _ in }
    return true
  }

  /// Ends an idle connection of the network that has the most, because there is no descriptor for a newcomer.
  package func makeRoom() {
    let room = allowance.state.withLock { $0.makeRoom(now: RoughTime.now()) }
    guard let room else { return }
    room.ending.end(ConnectionGate.placeNeeded)
    for other in room.cutOff { other.cutOff() }
  }

  /// Encodes an error as a line of the line protocol.
  package static func line(_ error: WireError) -> ByteBuffer {
    var line = JSONOutput()
    ReplyLine.failure(error, to: &line)
    return line.withBytes { ByteBuffer(bytes: $0) }
  }

  private static let placeNeeded = WireError(
    .overloaded,
    "the server needs the place of this idle connection for another client, as your network has the most; connect "
      + "again if you need it")

  /// Closes the connections that have been silent for this time: no data and no acknowledgement by the
  /// other side's kernel. O(connections).
  package func closeSilent(milliseconds: Int64) {
    for channel in channels {
      guard let socket = channel as? any SocketOptionProvider else { continue }
      socket.getTCPInfo().whenSuccess { info in
        let silence = min(info.tcpi_last_ack_recv, info.tcpi_last_data_recv)
        if Int64(silence) > milliseconds { channel.cutOff() }
      }
    }
  }

  /// Closes all connections at once. O(connections).
  package func closeAll() {
    for channel in channels { channel.cutOff() }
  }

  private var channels: [any Channel] { state.withLock { Array($0.values) } }
}
