internal import CanopySystem
internal import CanopyTree

extension Engine {
  /// Returns the changes between a commit that a client knows and the starting point of its listener, as if all
  /// commits in between were one.
  ///
  /// Reads the journal backward from the starting point, a page at a time, and reverts its writes to the location,
  /// which leads to the version that the client knows. That costs time in proportion to the commits since then,
  /// whatever they wrote. So it is done only while it costs less than sending the whole state: see
  /// `Limits.resumedCommitsMax`. At most `Limits.resumptionsMax` clients are served at a time, and as many others that
  /// know all but the last `Limits.resumedCommitsMin` commits.
  ///
  /// - Parameters:
  ///   - since: the sequence number of the last commit that the client knows.
  ///   - start: the starting point. It is evaluated when the turn of the client has come, because a client that waits
  ///     must not keep a version of the tree in memory.
  ///   - group: the connection and its network, which share their turns.
  ///   - body: uses the changes in that turn, on a thread of its own. They may be the only holders of large values.
  /// - Returns: the result of `body`; nil if the client is to get the whole state: the journal does not reach back that
  ///   far, no longer has the values before one of the commits, would take longer to read, or has too many locations.
  /// - Throws: the errors of the journal, of `start` and of `body`; `CancellationError`, which is noticed before each page.
  public func changes<R: Sendable>(
    since: Int64, to start: @autoclosure () async throws -> ListenStart,
    for group: TurnGroup? = nil, _ body: @escaping @Sendable ([ListenEvent]) throws -> R
  ) async throws -> R? {
    let isShort = since >= snapshot.sequence - Limits.resumedCommitsMin
    return try await (isShort ? shortResumptions : resumptions).withTurn(of: group) {
      let start = try await start()
      guard since <= start.sequence else { return nil }
      guard since < start.sequence else { return try body([]) }
      let distance = start.sequence - since
      guard distance <= Limits.resumedCommitsMax else { return nil }
      if isPlanted(.resumeOffByOne), distance > 1 {
        return try await read(since: since + 1, to: start, body)
      }
      if distance > Limits.resumedCommitsMin {
        let size = await Engine.beside { start.size(upTo: Limits.resumedSizeMax) }
        guard distance <= size / Limits.resumedBytesPerCommit else { return nil }
      }
      return try await read(since: since, to: start, body)
    }
  }

  /// The most locations that the commits since then may have written, for a copy of a whole location.
  static let resumedLocationsMax = WithheldChanges.locationsMax

  /// Runs a step that may take long on a thread of its own. The threads of tasks are few.
  private static func beside<R: Sendable>(_ body: @escaping @Sendable () -> R) async -> R {
    await withCheckedContinuation { continuation in
      let run = { @Sendable in continuation.resume(returning: body()) }
      if !WorkerThread.start(niceness: 5, run) { run() }
    }
  }

  private func read<R: Sendable>(
    since: Int64, to start: ListenStart, _ body: @escaping @Sendable ([ListenEvent]) throws -> R
  ) async throws -> R? {
    // The oldest first: without it there is no need to read all the others.
    let oldest = try await journal.history(after: since, through: since + 1) { _ in false }
    guard oldest.read != nil else { return nil }
    let listening = start.listening
    let needsImages = listening.form != .sync || !listening.query.isUnbounded
    var old = Tree(root: start.root)
    var written: Set<Location> = []
    var last = start.sequence
    var bytes = 0
    var bytesMax = Limits.resumedBytesMin
    while last > since {
      try Task.checkCancellation()
      if bytes >= bytesMax {
        // Measured only now, as most resumptions do not need it.
        let size = await Engine.beside { start.size(upTo: Limits.resumedSizeMax) }
        bytesMax = Limits.resumedBytesMin + 2 * size
        guard bytes < bytesMax else { return nil }
      }
      let page = try await journal.history(after: since, through: last) { locations in
        locations.contains { listening.isConcerned(by: $0) }
      }
      guard let read = page.read, read.upperBound == last else { return nil }
      if needsImages {
        guard page.commits.allSatisfy({ $0.beforeImage != nil }) else { return nil }
        old = await Engine.beside { [old] in
          var tree = old
          for commit in page.commits {
            tree.apply((commit.beforeImage ?? []).filter { listening.isConcerned(by: $0.location) })
          }
          return tree
        }
      } else {
        for location in page.commits.lazy.flatMap(\.assignments).map(\.location)
        where listening.isConcerned(by: location) {
          written.insert(location)
          // So many places cost more than the whole state: each is looked up, sorted and sent with its path.
          guard written.count <= Engine.resumedLocationsMax else { return nil }
        }
      }
      bytes += page.bytes
      last = read.lowerBound - 1
    }
    try Task.checkCancellation()
    return try await Engine.beside { [old, written] in
      Result {
        try body(
          needsImages
            ? listening.events(from: old.root, to: start.root, by: [])
            : listening.changes(to: start.root, by: written))
      }
    }.get()
  }
}

extension ListenStart {
  /// Returns the bytes of the state that the listener shows, or the bound if there are more. O(bytes) at most.
  fileprivate func size(upTo bytesMax: Int) -> Int {
    var budget = bytesMax
    let query = listening.query
    if query.isUnbounded {
      guard node.fits(budget: &budget) else { return bytesMax }
    } else {
      // `"k":1,` has six bytes.
      guard query.count(in: node) <= bytesMax / 6 else { return bytesMax }
      var fits = true
      query.forEachChild(of: node) { key, child in
        budget -= key.utf8Count + 4
        fits = child.fits(budget: &budget)
        return fits
      }
      guard fits else { return bytesMax }
    }
    return bytesMax - budget
  }
}

extension Listening {
  /// Whether a location is that of the listener, above it or below it.
  func isConcerned(by location: Location) -> Bool {
    let otherPath = location.path
    return otherPath.hasPrefix(path) || (!location.isPriority && path.hasPrefix(otherPath))
  }

  /// Returns the changes for a copy of the whole location that has missed some writes: the present value of each
  /// location that they wrote.
  func changes(to root: Node, by written: Set<Location>) -> [ListenEvent] {
    let node = root.at(path)
    var places: [Location] = []
    for location in written {
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
  /// Returns the shortest prefix of a path at which no node exists; nil if one exists at the whole path.
  ///
  /// If a leaf became a branch and the branch was removed, a copy still has the leaf. Removing a location below the
  /// leaf would change nothing in the copy, so the removal must name the location of the leaf.
  fileprivate func absence(on path: Path) -> Path? {
    (0...path.count).lazy.map(path.prefix).first { at($0).isAbsent }
  }
}
