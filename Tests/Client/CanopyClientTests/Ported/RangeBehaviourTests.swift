import CanopyTesting
import CanopyTree
import Testing

@testable import CanopyClient

/// Queries with bounds, as the original client answers them.
@Suite(.timeLimit(.minutes(20))) struct RangeBehaviourTests {
  /// Expects results of queries, both of data that the client writes after it observes and of data of the server,
  /// over both protocols.
  private func expect(
    _ cases: [((DatabaseQuery) -> DatabaseQuery, [String])], of value: [String: Any]
  ) async throws {
    for kind in WireKind.allCases {
      try await withPair(over: kind) { _, place, reader in
        let logs = cases.map { _ in Received<[String]>() }
        for (log, (query, _)) in zip(logs, cases) {
          query(place.queryOrderedByPriority())
            .observe(.value, with: { log.add($0.childSnapshots.map(\.key)) })
        }
        place.startSet(value)
        await place.waitUntilQuiet()
        for (log, (query, keys)) in zip(logs, cases) {
          #expect(log.values.last == keys, "over \(kind)")
          let read = try await query(reader.queryOrderedByPriority()).keys()
          #expect(read == keys, "over \(kind)")
        }
      }
    }
  }

  private static var named: [String: Any] {
    ["a": "z", "b": "y", "c": "x", "d": "w"].mapValues {
      [".value": 1, ".priority": $0] as [String: Any]
    }
  }
  private static func numbered(_ priorities: [String: Int]) -> [String: Any] {
    priorities.mapValues { [".value": 1, ".priority": $0] }
  }

  @Test(
    .ported(
      "FIRDatabaseQueryTests.testStartAtPriorityAndEndAtPriorityWork",
      "FIRDatabaseQueryTests.testStartAtPriorityAndEndAtPriorityWorkWithServerData",
      "FIRDatabaseQueryTests.testEqualToPriorityWorks",
      "FIRDatabaseQueryTests.testEqualToPriorityWorksWithServerData"))
  func `bounds of the priority include it`() async throws {
    try await expect(
      [
        ({ $0.queryStarting(atValue: "w").queryEnding(atValue: "y") }, ["d", "c", "b"]),
        ({ $0.queryStarting(atValue: "w").queryEnding(atValue: "w") }, ["d"]),
        ({ $0.queryStarting(atValue: "a").queryEnding(atValue: "c") }, []),
        ({ $0.queryEqual(toValue: "w") }, ["d"]), ({ $0.queryEqual(toValue: "c") }, []),
      ], of: Self.named)
  }

  @Test(
    .ported(
      "FIRDatabaseQueryTests.testStartAtAndEndAtPriorityAndNameWork",
      "FIRDatabaseQueryTests.testStartAtAndEndAtPriorityAndNameWorkWithServerData",
      "FIRDatabaseQueryTests.testEqualToPriorityAndNameWorks",
      "FIRDatabaseQueryTests.testEqualToPriorityAndNameWorksWithServerData"))
  func `bounds of the priority and the key include both`() async throws {
    try await expect(
      [
        (
          {
            $0.queryStarting(atValue: 1, childKey: "a").queryEnding(atValue: 2, childKey: "d")
          }, ["a", "b", "c", "d"]
        ),
        (
          {
            $0.queryStarting(atValue: 1, childKey: "b").queryEnding(atValue: 2, childKey: "c")
          }, ["b", "c"]
        ),
        ({ $0.queryStarting(atValue: 1, childKey: "c").queryEnding(atValue: 2) }, ["c", "d"]),
        ({ $0.queryEqual(toValue: 1, childKey: "a") }, ["a"]),
        ({ $0.queryEqual(toValue: "1", childKey: "z") }, []),
      ], of: Self.numbered(["a": 1, "b": 1, "c": 2, "d": 2]))
  }

  @Test(
    .ported(
      "FIRDatabaseQueryTests.testStartAtAndEndAtPriorityAndNameWork2",
      "FIRDatabaseQueryTests.testStartAtAndEndAtPriorityAndNameWorkWithServerData2"))
  func `the priority decides before the key`() async throws {
    try await expect(
      [
        (
          {
            $0.queryStarting(atValue: 1, childKey: "c").queryEnding(atValue: 2, childKey: "b")
          }, ["c", "d", "a", "b"]
        ),
        (
          {
            $0.queryStarting(atValue: 1, childKey: "d").queryEnding(atValue: 2, childKey: "a")
          }, ["d", "a"]
        ),
        ({ $0.queryStarting(atValue: 1, childKey: "e").queryEnding(atValue: 2) }, ["a", "b"]),
      ], of: Self.numbered(["c": 1, "d": 1, "a": 2, "b": 2]))
  }

  @Test(
    .ported(
      "FIRDatabaseQueryTests.testFilteringToNullPriorities",
      "FIRDatabaseQueryTests.testNullPrioritiesIncludedInEndAt",
      "FIRDatabaseQueryTests.testStartAtWithTwoArgumentsWorks"))
  func `children without a priority come before all others`() async throws {
    var value = Self.numbered(["c": 2, "d": 3])
    value["a"] = 0
    value["b"] = 1
    value["e"] = [".value": 4, ".priority": "hi"]
    try await expect(
      [
        ({ $0.queryStarting(atValue: nil).queryEnding(atValue: nil) }, ["a", "b"]),
        ({ $0.queryEnding(atValue: 2) }, ["a", "b", "c"]),
        ({ $0.queryStarting(atValue: 2, childKey: "c").queryLimited(toFirst: 2) }, ["c", "d"]),
      ], of: value)
  }

  @Test(
    .ported(
      "FIRDatabaseQueryTests.testIntegerKeysBehaveNumerically1",
      "FIRDatabaseQueryTests.testIntegerKeysBehaveNumerically2",
      "FIRDatabaseQueryTests.testIntegerKeysBehaveNumerically3",
      "FIRDatabaseQueryTests.testEndingAtNameReturnsCorrectChildren"))
  func `bounds of integer keys are numbers`() async throws {
    let keys = ["1", "50", "550", "6", "600", "70", "8", "80"]
    try await expect(
      [
        ({ $0.queryStarting(atValue: nil, childKey: "80") }, ["80", "550", "600"]),
        ({ $0.queryEnding(atValue: nil, childKey: "50") }, ["1", "6", "8", "50"]),
        (
          {
            $0.queryStarting(atValue: nil, childKey: "50").queryEnding(atValue: nil, childKey: "80")
          }, ["50", "70", "80"]
        ),
        (
          { $0.queryEnding(atValue: nil, childKey: "70").queryLimited(toLast: 3) },
          ["8", "50", "70"]
        ),
      ], of: Dictionary(uniqueKeysWithValues: keys.map { ($0, true) }))
  }

  @Test(
    .ported("FIRDatabaseQueryTests.testChildChangedCausesChildRemovedEvent"),
    arguments: WireKind.allCases)
  func `a child whose priority leaves the range is removed, with its last value in it`(
    _ kind: WireKind
  )
    async throws
  {
    try await withPair(over: kind) { _, place, _ in
      let removed = EventLog()
      place.child("a").startSet("1", priority: "a")
      place.child("b").startSet("2", priority: "b")
      place.queryOrderedByPriority().queryStarting(atValue: "b").queryEnding(atValue: "d")
        .observe(.childRemoved, with: { removed.add($0.text) })
      place.child("b").startSet("4", priority: "a")
      #expect(await removed.wait(for: 1) == ["2"])
    }
  }

  @Test(
    .ported(
      "FIRDatabaseQueryTests.testCanCreateBasicQueries",
      "FIRDatabaseQueryTests.testInvalidQueryParams", "FIRDatabaseQueryTests.testLimitRanges",
      "FIRDatabaseQueryTests.testInvalidKeys"), arguments: WireKind.allCases)
  func `each part of a query is given once, and only with a fitting value`(_ kind: WireKind)
    async throws
  {
    try await withPair(over: kind) { _, place, _ in
      let byKey = place.queryOrderedByKey()
      let byPriority = place.queryOrderedByPriority()
      let byChild = place.queryOrdered(byChild: "index")
      var right: [DatabaseQuery] = [
        place.queryLimited(toFirst: 10), place.queryLimited(toLast: 10),
        byKey.queryStarting(atValue: "foo"), byKey.queryEnding(atValue: "foo"),
        byKey.queryEqual(toValue: "foo"), place.queryLimited(toFirst: 1 << 31 - 1),
      ]
      for value in [true, 1, "foo", nil] as [Any?] {
        right += [
          byChild.queryStarting(atValue: value), byChild.queryEnding(atValue: value),
          byChild.queryEqual(toValue: value),
        ]
        if value as? Bool != true || value is Int {
          right += [
            byPriority.queryStarting(atValue: value), byPriority.queryEqual(toValue: value),
          ]
        }
      }
      for query in right { _ = try await query.getData() }
      let orders: [(DatabaseQuery) -> DatabaseQuery] = [
        { $0.queryOrderedByKey() }, { $0.queryOrderedByValue() }, { $0.queryOrderedByPriority() },
        { $0.queryOrdered(byChild: "foo") },
      ]
      let limits: [(DatabaseQuery) -> DatabaseQuery] = [
        { $0.queryLimited(toFirst: 100) }, { $0.queryLimited(toLast: 100) },
      ]
      let starts: [(DatabaseQuery) -> DatabaseQuery] = [
        { $0.queryStarting(atValue: "foo") }, { $0.queryEqual(toValue: "foo") },
      ]
      let ends: [(DatabaseQuery) -> DatabaseQuery] = [
        { $0.queryEnding(atValue: "foo") }, { $0.queryEqual(toValue: "foo") },
      ]
      var wrong: [DatabaseQuery] = []
      for same in [orders, limits, starts, ends] {
        for first in same { wrong += same.map { $0(first(place)) } }
      }
      wrong += [
        byKey.queryStarting(atValue: "a", childKey: "b"),
        byKey.queryEnding(atValue: "a", childKey: "b"),
        byKey.queryEqual(toValue: "a", childKey: "b"), byKey.queryStarting(atValue: true),
        byKey.queryEnding(atValue: 1), byKey.queryEqual(toValue: nil),
        place.queryStarting(atValue: "foo", childKey: "foo").queryOrderedByKey(),
        place.queryStarting(atValue: 1).queryOrderedByKey(), place.queryEqual(toValue: [Any]()),
        place.queryStarting(atValue: [String: Any]()), byPriority.queryEnding(atValue: false),
        place.queryLimited(toLast: 0), place.queryLimited(toLast: 1 << 31),
      ]
      for key in [
        ".test", "test.", "fo$o", "[what", "ever]", "ha#sh", "/thing", "th/ing", "thing/",
      ] {
        wrong.append(byPriority.queryStarting(atValue: nil, childKey: key))
        wrong.append(byPriority.queryEnding(atValue: nil, childKey: key))
      }
      for query in wrong {
        let error = await #expect(throws: DatabaseError.self) { try await query.getData() }
        #expect(error?.code == .invalidQuery)
      }
    }
  }

  @Test(
    .ported("FIRDatabaseQueryTests.testQuerySnapshotChildrenRespectDefaultOrdering"),
    arguments: WireKind.allCases)
  func `the children below those of a query have the default order`(_ kind: WireKind) async throws {
    try await withPair(over: kind) { _, writer, reader in
      func person(_ name: String, last: Any) -> [String: Any] {
        [
          "thisvaluefirst": [".value": true, ".priority": 1],
          "name": [".value": name, ".priority": 2],
          "thisvaluelast": [".value": true, ".priority": last],
        ]
      }
      try await writer.setValue([
        "a": person("Michael", last: 3), "b": person("Rob", last: 3),
        "c": person("Jonny", last: "somestring"),
      ])
      let snapshot = try await reader.queryOrdered(byChild: "name").first()
      let children = snapshot.childSnapshots
      #expect(
        children.map { $0.childSnapshot(forPath: "name").text } == ["Jonny", "Michael", "Rob"])
      for child in children + [snapshot.childSnapshot(forPath: "b")] {
        #expect(child.childSnapshots.map(\.key) == ["thisvaluefirst", "name", "thisvaluelast"])
      }
    }
  }
}
