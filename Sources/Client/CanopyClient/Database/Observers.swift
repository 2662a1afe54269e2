internal import CanopyTree
internal import Synchronization

/// The observers of the application, which any thread may end at once.
///
/// The state may be in use on another thread when the application removes an observer. So a removal
/// first ends the observer here, before it returns: no call begins after that. The state stops
/// listening later.
final class Observers: Sendable {
  private struct Place: Hashable {
    var path: Path
    var isInfo: Bool
  }

  private let byPlace = Mutex<[Place: [ListenerID: Registration]]>([:])

  /// Adds an observer, before the state does.
  func add(_ registration: Registration, as id: ListenerID) {
    byPlace.withLock { $0[Self.place(of: registration), default: [:]][id] = registration }
  }

  /// Forgets an observer that has ended. Does nothing if it is unknown.
  func forget(_ id: ListenerID, _ registration: Registration) {
    let place = Self.place(of: registration)
    byPlace.withLock { Self.remove([id], at: place, from: &$0) }
  }

  /// Ends matching observers: of all queries at the path, or of one query.
  ///
  /// - Parameter isInfo: whether the path is one below `/.info`.
  /// - Returns: the observers, which the state still has to forget.
  func end(
    at spec: QuerySpec, isInfo: Bool, where isMatch: (ListenerID) -> Bool
  ) -> [ListenerID] {
    let place = Place(path: spec.path, isInfo: isInfo)
    let ended = byPlace.withLock { byPlace in
      let found = (byPlace[place] ?? [:]).filter { id, registration in
        isMatch(id) && (spec.query == .all || registration.spec == spec)
      }
      Self.remove(found.keys, at: place, from: &byPlace)
      return found.sorted { $0.key.number < $1.key.number }
    }
    // Without the lock: this resumes tasks, which may remove observers.
    for (_, registration) in ended { registration.remove() }
    return ended.map(\.key)
  }

  private static func remove(
    _ ids: some Sequence<ListenerID>, at place: Place,
    from byPlace: inout [Place: [ListenerID: Registration]]
  ) {
    for id in ids { byPlace[place]?[id] = nil }
    if byPlace[place]?.isEmpty == true { byPlace[place] = nil }
  }

  private static func place(of registration: Registration) -> Place {
    var isInfo = false
    if case .info = registration.query.target { isInfo = true }
    return Place(path: registration.spec.path, isInfo: isInfo)
  }
}
