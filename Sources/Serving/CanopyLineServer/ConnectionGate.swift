internal import CanopyAccounts
internal import CanopyTree
internal import CanopyWire
internal import NIOCore
internal import NIOPosix
internal import Synchronization

/// Accepts connections as far as ``ConnectionAllowance`` permits, and keeps a list of those that are
/// open. Safe to use from any event loop.
final class ConnectionGate: Sendable {
  private struct State {
    var allowance: ConnectionAllowance
    var channels: [ObjectIdentifier: any Channel] = [:]
  }

  private let state: Mutex<State>

  /// - Parameters:
  ///   - connectionsMax: the most connections in all.
  ///   - perNetworkMax: the most connections of one remote network.
  init(connectionsMax: Int, perNetworkMax: Int) {
    state = Mutex(
      State(
        allowance: ConnectionAllowance(
          connectionsMax: connectionsMax, perNetworkMax: perNetworkMax)))
  }

  /// The number of open connections.
  var count: Int { state.withLock { $0.channels.count } }

  /// Accepts a connection, or sends it an error and closes it. O(1).
  ///
  /// - Parameter isShortOfMemory: whether the other connections hold all the memory that they may.
  /// - Returns: whether the connection is accepted.
  func enter(_ channel: any Channel, isShortOfMemory: Bool = false) -> Bool {
    let id = ObjectIdentifier(channel)
    let network = RemoteNetwork(channel.remoteAddress?.ipAddress ?? "")
    let error = state.withLock { state -> WireError? in
      if isShortOfMemory { return ConnectionGate.shortOfMemory }
      let refusal = state.allowance.enter(network)
      if refusal == nil { state.channels[id] = channel }
      return refusal?.error
    }
    if let error {
      var line = JSONOutput()
      ReplyLine.failure(error, to: &line)
      let buffer = line.withBytes { ByteBuffer(bytes: $0) }
      channel.writeAndFlush(buffer).whenComplete { _ in channel.close(promise: nil) }
      return false
    }
    channel.closeFuture.whenComplete { _ in
      self.state.withLock { state in
        state.channels[id] = nil
        state.allowance.leave(network)
      }
    }
    return true
  }

  private static let shortOfMemory = WireError(
    .overloaded, "the server is short of memory; try again later")

  /// Closes the connections that have been silent for this time: no data and no acknowledgement by the
  /// other side's kernel. O(connections).
  func closeSilent(milliseconds: Int64) {
    for channel in channels {
      guard let socket = channel as? any SocketOptionProvider else { continue }
      socket.getTCPInfo().whenSuccess { info in
        let silence = min(info.tcpi_last_ack_recv, info.tcpi_last_data_recv)
        if Int64(silence) > milliseconds { channel.close(promise: nil) }
      }
    }
  }

  /// Closes all connections. O(connections).
  func closeAll() {
    for channel in channels { channel.close(promise: nil) }
  }

  private var channels: [any Channel] { state.withLock { Array($0.channels.values) } }
}
