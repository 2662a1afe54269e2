package import CanopySession
package import CanopyWire

/// The connection as the administrator sees it.
extension SessionHandler: LoopClient {
  package final func clientState(_ id: Int64, listMax: Int) -> ClientState {
    var state = ClientState(
      id: id, kind, address: client.address, since: client.since,
      namespace: operations.namespace)
    state.add(session, listMax: listMax)
    return state
  }

  package final func endClient(_ error: WireError) {
    end(error)
  }

  package final var restingNamespace: NamespaceName? {
    let namespace = operations.namespace
    return namespace != .default && session.isResting ? namespace : nil
  }
}
