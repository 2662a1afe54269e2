internal import CanopyTree

extension Engine {
  /// Commits that are read from the journal at a time.
  private static let historyStep: Int64 = 1_000

  /// What changed, for somebody who listens again, between a commit that they know and the starting
  /// point: as if all commits in between were one.
  ///
  /// The journal is read back from the starting point, and what it says of the location is taken
  /// back, which leads to the version that they know. O(commits since, and what they wrote here).
  ///
  /// - Parameter since: the sequence number of the last commit that they were told of.
  /// - Returns: nil when the journal does not reach back that far, or has forgotten what one of the
  ///   commits changed: then only everything can be told.
  /// - Throws: what the journal throws.
  public func changes(since: Int64, to start: ListenStart) async throws -> [ListenEvent]? {
    guard since <= start.sequence else { return nil }
    // The oldest first: without it there is no need to read all the others.
    let reach = min(since + 1, start.sequence)
    if since < reach, try await journal.commits(after: since, through: reach).isEmpty { return nil }
    let listening = start.listening
    let needsImages = listening.form != .sync || !listening.query.isUnbounded
    var old = Tree(root: start.root)
    var written: [Assignment] = []
    var last = start.sequence
    while last > since {
      let first = max(since, last - Engine.historyStep)
      let commits = try await journal.commits(after: first, through: last)
      guard commits.count == last - first, commits.first?.sequence == first + 1 else { return nil }
      for commit in commits.reversed() {
        let here = commit.assignments.filter { listening.isConcerned(by: $0) }
        guard !here.isEmpty else { continue }
        written += here
        if let image = commit.beforeImage {
          old.apply(image.filter { listening.isConcerned(by: $0) })
        } else if needsImages {
          return nil
        }
      }
      last = first
    }
    guard needsImages else { return listening.changes(to: start.root, by: written) }
    return listening.events(from: old.root, to: start.root, by: written)
  }
}

extension Listening {
  /// Whether an assignment is to the location, above it or below it.
  fileprivate func isConcerned(by assignment: Assignment) -> Bool {
    let otherPath = assignment.location.path
    return otherPath.hasPrefix(path)
      || (!assignment.location.isPriority && path.hasPrefix(otherPath))
  }

  /// What a copy of the whole location lacks when it has missed some writes: the present value of
  /// each place that they wrote.
  fileprivate func changes(to root: Node, by written: [Assignment]) -> [ListenEvent] {
    let node = root.at(path)
    var places: [Location] = []
    for location in written.map(\.location) {
      if !location.isPriority, path.hasPrefix(location.path) {
        return [.put([Assignment(.root, node)])]
      }
      guard let below = location.path.relative(to: path) else { continue }
      places.append(
        node.absence(on: below).map { Location($0) }
          ?? Location(below, isPriority: location.isPriority))
    }
    var locations: [Location] = []
    for place in places.sorted() {
      if let last = locations.last, last.overlaps(next: place) { continue }
      locations.append(place)
    }
    if locations.isEmpty { return [] }
    let puts = locations.map { location in
      let place = node.at(location.path)
      return Assignment(location, location.isPriority ? place.priority : place)
    }
    return [.put(puts)]
  }
}

extension Node {
  /// The shortest part of a path at which nothing stands; nil when something stands at all of it.
  ///
  /// Where a leaf became a branch and that was removed, a copy still has the leaf: it must be told
  /// that nothing is there, as telling it so of a place below changes nothing.
  fileprivate func absence(on path: Path) -> Path? {
    (0...path.count).lazy.map(path.prefix).first { at($0).isAbsent }
  }
}
