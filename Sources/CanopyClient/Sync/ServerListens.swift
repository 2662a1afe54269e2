internal import CanopyTree

/// What the server is listened to for, and what it is not because something wider covers it.
struct ServerListens: Sendable {
  /// One listen.
  struct Listen: Sendable {
    let tag: ListenTag
    let spec: QuerySpec
    /// The last commit of which the server told.
    var sequence: Int64?
  }

  private(set) var bySpec: [QuerySpec: Listen] = [:]
  private var specs: [ListenTag: QuerySpec] = [:]
  private var nextTag = 1

  subscript(tag: ListenTag) -> Listen? {
    specs[tag].flatMap { bySpec[$0] }
  }

  subscript(spec: QuerySpec) -> Listen? { bySpec[spec] }

  /// All, in the order in which they began.
  var all: [Listen] { bySpec.values.sorted { $0.tag.number < $1.tag.number } }

  mutating func start(_ spec: QuerySpec, since sequence: Int64?) -> Listen {
    let listen = Listen(tag: ListenTag(number: nextTag), spec: spec, sequence: sequence)
    nextTag += 1
    bySpec[spec] = listen
    specs[listen.tag] = spec
    return listen
  }

  mutating func stop(_ spec: QuerySpec) -> ListenTag? {
    guard let listen = bySpec.removeValue(forKey: spec) else { return nil }
    specs[listen.tag] = nil
    return listen.tag
  }

  /// Gives all listens new tags, for a new connection.
  mutating func renew() {
    let all = all
    specs = [:]
    for listen in all { _ = start(listen.spec, since: listen.sequence) }
  }

  /// Has the server tell everything of a query when it is asked the next time.
  mutating func beginAnew(_ spec: QuerySpec) {
    bySpec[spec]?.sequence = nil
  }

  mutating func told(_ tag: ListenTag, _ sequence: Int64) {
    guard let spec = specs[tag] else { return }
    let known = bySpec[spec]?.sequence ?? sequence
    bySpec[spec]?.sequence = max(known, sequence)
  }
}

extension SyncTree {
  /// Asks the server for a new view's query, unless something covers it; what it covers itself is not
  /// asked for any longer.
  ///
  /// - Parameter sequence: the commit as of which the query is known.
  mutating func cover(_ spec: QuerySpec, since sequence: Int64?, _ effects: inout Effects) {
    guard !isCovered(spec), listens[spec.asked] == nil else { return }
    var below: [ViewID] = []
    if spec.query.isUnbounded { places.below(spec.path)?.forEach { below += $0 } }
    let others = inOrder(below).compactMap { views[$0] }.filter { $0.spec.asked != spec.asked }
    // A view that has only a part must be told all of it: what changed since would not complete it.
    let isComplete = others.allSatisfy { $0.server.extent == .whole }
    start(spec.asked, since: isComplete ? sequence : nil, &effects)
    for view in others { stop(view, &effects) }
  }

  /// Ends the listen of a view that is gone, and asks for what it covered.
  mutating func uncover(_ view: View, _ effects: inout Effects) {
    let spec = view.spec
    let isNeeded = places[spec.path]?.contains { views[$0]?.spec.asked == spec.asked } ?? false
    guard !isNeeded, let old = listens[spec.asked] else { return }
    startUncovered(below: spec, since: old.sequence, &effects)
    stop(view, &effects)
  }

  /// Asks for what a listen that ends has covered.
  ///
  /// - Parameter sequence: the last commit of which it told.
  mutating func startUncovered(
    below spec: QuerySpec, since sequence: Int64?, _ effects: inout Effects
  ) {
    guard spec.query.isUnbounded, let place = places.below(spec.path) else { return }
    for id in inOrder(Self.uppermost(place, isWhole)).reversed() {
      guard let below = views[id]?.spec, !isCovered(below), listens[below.asked] == nil else {
        continue
      }
      // What is narrowed down is asked for anew: more of it is known than its answer will have.
      start(below.asked, since: below.query.isUnbounded ? sequence : nil, &effects)
    }
  }

  /// Whether somebody listens to all of the place, or of one above.
  private func isCovered(_ spec: QuerySpec) -> Bool {
    var result = false
    places.forEach(onTheWayTo: spec.path) { depth, ids in
      let isAbove = depth < spec.path.count || !spec.query.isUnbounded
      result = isAbove && ids.contains(where: isWhole)
      return !result
    }
    return result
  }

  private func isWhole(_ id: ViewID) -> Bool { views[id]?.spec.query.isUnbounded ?? false }

  /// The views at and below a place that no other view there covers.
  private static func uppermost(
    _ place: PathTrie<[ViewID]>, _ isWhole: (ViewID) -> Bool
  ) -> [ViewID] {
    if let whole = place.value?.first(where: isWhole) { return [whole] }
    return (place.value ?? []) + place.children.values.flatMap { uppermost($0, isWhole) }
  }

  private mutating func start(_ spec: QuerySpec, since: Int64?, _ effects: inout Effects) {
    let listen = listens.start(spec, since: since)
    effects.changes.append(.asked(spec, true))
    if let since, saved[spec] == nil, let node = serverValue(at: spec.path) {
      // What a wider query told is where this one begins.
      effects.changes.append(.told(spec, [Assignment(.root, node)], sequence: since))
    }
    saved[spec] = nil
    guard isConnected else { return }
    effects.starts.append(ServerListen(tag: listen.tag, spec: spec, since: since))
  }

  /// Ends the listen of a view, if there is one.
  private mutating func stop(_ view: View, _ effects: inout Effects) {
    save(view)
    guard let tag = listens.stop(view.spec.asked) else { return }
    effects.changes.append(.asked(view.spec.asked, false))
    if isConnected { effects.stops.append(tag) }
  }
}
