import CanopyClient
import CanopyTesting
import Testing

/// Queries for which the rules declare no index: the library downloads the location and filters it.
@Suite(.timeLimit(.minutes(20))) struct UnindexedQueryTests {
  /// Writes posts as the administrator, whom the rules of the blog do not bind.
  private func write(_ titles: [String: Any], _ backend: Backend) async throws {
    var changes: [String: Any] = [:]
    for (key, title) in titles { changes["posts/\(key)/title"] = title }
    try await backend.client().reference().updateChildValues(changes)
  }

  @Test(arguments: WireKind.allCases)
  func `a query without an index is filtered here, with one warning`(_ kind: WireKind) async throws
  {
    try await withBackend(over: kind) { backend in
      try await write(["a": "1", "b": "2", "c": "3", "d": "4"], backend)
      let log = LineLog()
      let database = try backend.anonymousClient { $0.logger = log.logger }
      let posts = database.reference(withPath: "posts")
      let last = posts.queryOrdered(byChild: "title").queryLimited(toLast: 2)
      let values = Received<[String]>()
      last.observe(.value, with: { values.add($0.childSnapshots.map(\.key)) })
      let removed = Received<String>()
      last.observe(.childRemoved, with: { removed.add($0.key) })
      #expect(await values.wait(for: 1) == [["c", "d"]])
      // A child outside the result enters it, although only a part of it changes.
      try await write(["a": "9"], backend)
      #expect(await values.wait(for: 2).last == ["d", "a"])
      #expect(await removed.wait(for: 1) == ["c"])
      // A child that leaves is replaced by the next one.
      try await backend.client().reference(withPath: "posts/d").removeValue()
      #expect(await values.wait(for: 3).last == ["c", "a"])
      let read = try await posts.queryOrdered(byChild: "title").queryStarting(atValue: "3")
        .getData()
      #expect(read.childSnapshots.map(\.key) == ["c", "a"])
      let warnings = log.lines.filter { $0.contains("no index") }
      #expect(warnings.count == 1)
      #expect(warnings.allSatisfy { $0.contains(#"".indexOn": "title""#) })
    }
  }

  @Test(arguments: WireKind.allCases)
  func `a query without an index is up to date after a reconnection`(_ kind: WireKind) async throws
  {
    try await withBackend(over: kind) { backend in
      try await write(["a": "1", "b": "2", "c": "3"], backend)
      let database = try backend.anonymousClient()
      let first = database.reference(withPath: "posts").queryOrdered(byChild: "title")
        .queryLimited(toFirst: 1)
      let values = Received<[String]>()
      first.observe(.value, with: { values.add($0.childSnapshots.map(\.key)) })
      #expect(await values.wait(for: 1) == [["a"]])
      database.goOffline()
      try await write(["b": "0"], backend)
      try await backend.client().reference(withPath: "posts/a").removeValue()
      database.goOnline()
      #expect(await values.wait(for: 2).last == ["b"])
      try await backend.client().reference(withPath: "posts/b").removeValue()
      #expect(await values.wait(for: 3).last == ["c"])
    }
  }

  @Test(arguments: WireKind.allCases)
  func `a location that may not be read is refused, with an index or without`(_ kind: WireKind)
    async throws
  {
    try await withBackend(over: kind) { backend in
      let database = try backend.anonymousClient()
      let query = database.reference(withPath: "secret").queryOrdered(byChild: "n")
      let error = await #expect(throws: DatabaseError.self) {
        try await query.queryLimited(toLast: 1).getData()
      }
      #expect(error?.code == .permissionDenied)
    }
  }
}
