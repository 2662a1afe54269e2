internal import CanopyTree

/// The active listens on the server. A query covered by a wider listen has none.
struct ServerListens: Sendable {
  /// One listen.
  struct Listen: Sendable {
    let tag: ListenTag
    let spec: QuerySpec
    /// The last commit that the server reported.
    var sequence: Int64?
    /// Whether the server reports the whole location, because the rules declare no index for the
    /// query. Until the next connection.
    var isUnfiltered = false
  }

  private(set) var bySpec: [QuerySpec: Listen] = [:]
  private var specs: [ListenTag: QuerySpec] = [:]
  private var nextTag = 1

  subscript(tag: ListenTag) -> Listen? {
    specs[tag].flatMap { bySpec[$0] }
  }

  subscript(spec: QuerySpec) -> Listen? { bySpec[spec] }

  /// All listens, in the order in which they started.
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

  /// Assigns new tags to all listens, for a new connection.
  mutating func renew() {
    let all = all
    specs = [:]
    for listen in all { _ = start(listen.spec, since: listen.sequence) }
  }

  /// Makes the server send the whole state of a query on the next connection.
  mutating func restart(_ spec: QuerySpec) {
    bySpec[spec]?.sequence = nil
  }

  /// Records that the server reports the whole location instead of the query.
  ///
  /// - Returns: the query; nil if the listen has ended, is unbounded, or has already been changed so.
  mutating func makeUnfiltered(_ tag: ListenTag) -> QuerySpec? {
    guard let spec = specs[tag], !spec.query.isUnbounded, bySpec[spec]?.isUnfiltered == false else {
      return nil
    }
    bySpec[spec]?.isUnfiltered = true
    return spec
  }

  mutating func received(_ tag: ListenTag, _ sequence: Int64) {
    guard let spec = specs[tag] else { return }
    let known = bySpec[spec]?.sequence ?? sequence
    bySpec[spec]?.sequence = max(known, sequence)
  }
}

extension SyncTree {
  /// Starts a listen for a new view's query, unless another listen covers it, and stops the listens
  /// that the new one covers.
  ///
  /// - Parameter sequence: the commit of the query's known data.
  mutating func cover(_ spec: QuerySpec, since sequence: Int64?, _ effects: inout Effects) {
    guard !isCovered(spec), listens[spec.serverSpec] == nil else { return }
    var below: [ViewID] = []
    if spec.query.isUnbounded { viewsByPath.subtrie(at: spec.path)?.forEach { below += $0 } }
    let others = inOrder(below).compactMap { views[$0] }.filter {
      $0.spec.serverSpec != spec.serverSpec
    }
    // A view with partial data needs the whole state: later changes would not complete it.
    let isComplete = others.allSatisfy { $0.server.extent == .whole }
    start(spec.serverSpec, since: isComplete ? sequence : nil, &effects)
    for view in others { stop(view, &effects) }
  }

  /// Stops the listen of a removed view, and starts listens for the queries that it covered.
  mutating func uncover(_ view: View, _ effects: inout Effects) {
    let spec = view.spec
    let isNeeded =
      viewsByPath[spec.path]?.contains { views[$0]?.spec.serverSpec == spec.serverSpec } ?? false
    guard !isNeeded, let old = listens[spec.serverSpec] else { return }
    startUncovered(below: spec, since: old.sequence, &effects)
    stop(view, &effects)
  }

  /// Starts listens for the queries that an ending listen covered.
  ///
  /// - Parameter sequence: the last commit that it reported.
  mutating func startUncovered(
    below spec: QuerySpec, since sequence: Int64?, _ effects: inout Effects
  ) {
    guard spec.query.isUnbounded, let trie = viewsByPath.subtrie(at: spec.path) else { return }
    for id in inOrder(Self.uppermost(trie, isWhole)).reversed() {
      guard let below = views[id]?.spec, !isCovered(below), listens[below.serverSpec] == nil else {
        continue
      }
      // A bounded query needs the whole state: more of it is known than its reply will contain.
      start(below.serverSpec, since: below.query.isUnbounded ? sequence : nil, &effects)
    }
  }

  /// Whether a view of the whole location, or of one above, covers the query.
  private func isCovered(_ spec: QuerySpec) -> Bool {
    var result = false
    viewsByPath.forEach(along: spec.path) { depth, ids in
      let isAbove = depth < spec.path.count || !spec.query.isUnbounded
      result = isAbove && ids.contains(where: isWhole)
      return !result
    }
    return result
  }

  private func isWhole(_ id: ViewID) -> Bool { views[id]?.spec.query.isUnbounded ?? false }

  /// Returns the views at and below a path that no other view there covers.
  private static func uppermost(
    _ trie: PathTrie<[ViewID]>, _ isWhole: (ViewID) -> Bool
  ) -> [ViewID] {
    if let whole = trie.value?.first(where: isWhole) { return [whole] }
    return (trie.value ?? []) + trie.children.values.flatMap { uppermost($0, isWhole) }
  }

  private mutating func start(_ spec: QuerySpec, since: Int64?, _ effects: inout Effects) {
    let listen = listens.start(spec, since: since)
    effects.changes.append(.listening(spec, true))
    if let since, saved[spec] == nil, let node = serverValue(at: spec.path) {
      // The wider listen's data is the starting point of this one.
      effects.changes.append(.received(spec, [Assignment(.root, node)], sequence: since))
    }
    saved[spec] = nil
    guard isConnected else { return }
    effects.starts.append(ServerListen(tag: listen.tag, spec: spec, since: since))
  }

  /// Stops the listen of a view, if there is one.
  private mutating func stop(_ view: View, _ effects: inout Effects) {
    save(view)
    guard let tag = listens.stop(view.spec.serverSpec) else { return }
    effects.changes.append(.listening(view.spec.serverSpec, false))
    if isConnected { effects.stops.append(tag) }
  }
}
