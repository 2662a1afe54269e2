internal import CanopyAccounts
internal import CanopyTree
internal import CanopyWire
internal import NIOCore
internal import NIOPosix
internal import Synchronization

/// Lets connections in as far as ``ConnectionAllowance`` says, and knows those that are in. Safe to
/// use from any event loop.
final class ConnectionGate: Sendable {
  private struct State {
    var allowance: ConnectionAllowance
    var channels: [ObjectIdentifier: any Channel] = [:]
  }

  private let state: Mutex<State>

  /// - Parameters:
  ///   - connectionsMax: connections in all.
  ///   - perNetworkMax: connections of one remote network.
  init(connectionsMax: Int, perNetworkMax: Int) {
    state = Mutex(
      State(
        allowance: ConnectionAllowance(
          connectionsMax: connectionsMax, perNetworkMax: perNetworkMax)))
  }

  /// Connections that are in.
  var count: Int { state.withLock { $0.channels.count } }

  /// Lets a connection in, or tells it why not and closes it. O(1).
  ///
  /// - Parameter isShortOfMemory: whether the other connections hold all the memory that they may.
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

  /// Closes the connections from which nothing has come for so long, not even an acknowledgement by
  /// the other side's kernel. O(connections).
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
