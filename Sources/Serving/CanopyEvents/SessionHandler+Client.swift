package import CanopySession
package import CanopyWire
internal import NIOCore

/// The connection as the administrator sees it.
extension SessionHandler: LoopClient {
  package final func clientState(_ id: Int64, listMax: Int) -> ClientState {
    assertInEventLoop()
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
    guard namespace != .default else { return nil }
    return session.isResting || hasStoppedReading ? namespace : nil
  }

  /// Whether the connection waits for its client, which has read nothing for `Session.idleMillisecondsMax`. The time
  /// counts from the first look.
  private final var hasStoppedReading: Bool {
    guard session.waitsForReader, let context else {
      unreadProgress = ReadProgress()
      return false
    }
    let buffered = try? context.channel.syncOptions?.getOption(.bufferedWritableBytes)
    let idle = unreadProgress.idleMilliseconds(unsent: Int(buffered ?? 0), at: operations.now())
    return idle >= Session.idleMillisecondsMax
  }
}
