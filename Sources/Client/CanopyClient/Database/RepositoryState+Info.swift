internal import CanopyTree

/// The state of the connection: `/.info/connected` and `/.info/serverTimeOffset`.
extension RepositoryState {
  private static let connected: Key = "connected"
  private static let serverTimeOffset: Key = "serverTimeOffset"

  func observeInfo(_ path: Path, _ registration: Registration, as id: ListenerID) {
    guard !registration.hasEnded else { return }
    if let ending {
      observers.forget(id, registration)
      return refuse(registration, ending)
    }
    infos[id] = (path, registration)
    connectIfWanted()
    notifyInfoObservers(id, path, registration)
  }

  /// Forgets observers that have ended.
  func removeInfoObservers(_ ids: [ListenerID]) {
    for id in ids { infos[id] = nil }
  }

  /// Notifies all observers of the connection's state, which may have changed.
  func notifyInfoObservers() {
    for (id, info) in infos.sorted(by: { $0.key.number < $1.key.number }) {
      notifyInfoObservers(id, info.path, info.registration)
    }
  }

  func info(_ path: Path) -> Node {
    let children: [(Key, Node)] = [
      (Self.connected, Node(phase.isReady)), (Self.serverTimeOffset, Node(clock.offset)),
    ]
    return Node(children: children).at(path)
  }

  private func notifyInfoObservers(_ id: ListenerID, _ path: Path, _ registration: Registration) {
    guard registration.type == .value else { return }
    let snapshot = DataSnapshot(registration.query.reference, info(path), order: .priority)
    let observation = Observation(snapshot: snapshot, previousSiblingKey: nil)
    switch registration.delivery {
    case .direct: registration.notify(observation)
    case .callbackQueue: call(registration, observation)
    }
    guard registration.isOnce else { return }
    infos[id] = nil
    observers.forget(id, registration)
  }
}
