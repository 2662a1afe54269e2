internal import CanopyAccounts
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
    allowance = SharedAllowance(
      ConnectionAllowance(connectionsMax: connectionsMax, perNetworkMax: perNetworkMax))
  }

  /// Creates a gate for another listener, whose connections count for the same bounds.
  package init(sharingBoundsOf other: ConnectionGate) {
    allowance = other.allowance
  }

  /// The number of open connections.
  package var count: Int { state.withLock { $0.count } }

  /// Accepts a connection, or sends it an error and closes it. O(1).
  ///
  /// - Parameters:
  ///   - isShortOfMemory: whether the other connections hold all the memory that they may.
  ///   - refusal: encodes the error for the protocol of the listener; nil for the line protocol.
  /// - Returns: whether the connection is accepted.
  package func enter(
    _ channel: any Channel, isShortOfMemory: Bool = false,
    refusal: ((WireError) -> ByteBuffer)? = nil
  ) -> Bool {
    let id = ObjectIdentifier(channel)
    let network = RemoteNetwork(channel.remoteAddress?.ipAddress ?? "")
    let error: WireError? =
      isShortOfMemory
      ? ConnectionGate.shortOfMemory : allowance.state.withLock { $0.enter(network) }?.error
    if let error {
      let buffer = refusal?(error) ?? ConnectionGate.line(error)
      channel.writeAndFlush(buffer).whenComplete { _ in channel.close(promise: nil) }
      return false
    }
    state.withLock { $0[id] = channel }
    channel.closeFuture.whenComplete { _ in
      self.state.withLock { $0[id] = nil }
      self.allowance.state.withLock { $0.leave(network) }
    }
    return true
  }

  /// Encodes an error as a line of the line protocol.
  package static func line(_ error: WireError) -> ByteBuffer {
    var line = JSONOutput()
    ReplyLine.failure(error, to: &line)
    return line.withBytes { ByteBuffer(bytes: $0) }
  }

  private static let shortOfMemory = WireError(
    .overloaded, "the server is short of memory; try again later")

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

/// The connections of one or more listeners, and the bounds on them.
private final class SharedAllowance: Sendable {
  let state: Mutex<ConnectionAllowance>

  init(_ allowance: ConnectionAllowance) {
    state = Mutex(allowance)
  }
}
