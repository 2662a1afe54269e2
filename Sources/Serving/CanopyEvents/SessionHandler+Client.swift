package import CanopySession
package import CanopyWire
internal import NIOCore

/// The connection as the administrator sees it.
extension SessionHandler: LoopClient {
  package final func clientState(_ id: Int64, listMax: Int) -> ClientState {
    assertInEventLoop()
    var state = ClientState(
      id: id, client.kind, address: client.address, since: client.since,
      namespace: operations.namespace)
    state.add(session, listMax: listMax)
    return state
  }

  package final func endClient(_ error: WireError) {
    end(error)
  }

  package final var restingNamespace: NamespaceName? {
    let namespace = operations.namespace
    guard namespace != .default else { return nil }
    return session.isResting || hasStoppedReading ? namespace : nil
  }

  private final var hasStoppedReading: Bool {
    session.hasStoppedReading(unsent: bufferedBytes, at: operations.now())
  }

  /// The bytes in the buffers of the channel, which the socket has not accepted.
  final var bufferedBytes: Int {
    let bytes = try? context?.channel.syncOptions?.getOption(.bufferedWritableBytes)
    return Int(bytes ?? 0)
  }
}
