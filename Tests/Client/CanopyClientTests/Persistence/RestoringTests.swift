import CanopyTree
import Testing

@testable import CanopyClient

struct RestoringTests {
  private var store = NaiveStore()

  @Test
  mutating func
    `after a restart the data is there at once, the writes over it, and what is asked for is the rest`()
    throws
  {
    let fixture = SyncFixture()
    fixture.tree = SyncTree(restoring: SavedState())
    _ = fixture.tree.connected()
    store.record(try fixture.listen("a", to: "a").changes)
    store.record(
      try fixture.received(try QuerySpec("a"), "", #"{"b":1,"c":2}"#, sequence: 8).changes)
    store.record(try fixture.set("a/b", "5").effects.changes)
    let confirmed = try fixture.set("a/c", "6")
    store.record(confirmed.effects.changes)
    store.record(fixture.tree.acknowledged(confirmed.id).changes)

    let next = SyncFixture()
    next.tree = SyncTree(restoring: store.load())
    let effects = try next.listen("again", to: "a", for: .value)
    #expect(next.texts(effects) == [#"again value {"b":5,"c":2}"#])
    #expect(next.requests(next.tree.connected()) == ["start /a since 8"])
    #expect(next.sent().count == 1)
  }

  @Test mutating func `a query inside saved data is answered from it`() throws {
    store.record([
      .received(
        try QuerySpec("a"), [Assignment(.root, try Node(json: #"{"b":{"c":1},"d":2}"#))],
        sequence: 4)
    ])
    let fixture = SyncFixture()
    fixture.tree = SyncTree(restoring: store.load())
    _ = fixture.tree.connected()
    let deep = try fixture.listen("deep", to: "a/b/c", for: .value)
    #expect(fixture.texts(deep) == ["deep value 1"])
    #expect(fixture.requests(deep) == ["start /a/b/c since 4"])
    let narrow = try fixture.listen("last", to: "a", try Query(limit: .last(1)), for: .value)
    #expect(fixture.texts(narrow) == [#"last value {"d":2}"#])
    #expect(fixture.requests(narrow) == ["start /a narrow"])
  }

  @Test func `earlier data is answered at once in the same process too`() throws {
    let fixture = SyncFixture()
    fixture.tree = SyncTree(restoring: SavedState())
    _ = fixture.tree.connected()
    _ = try fixture.listen("a", to: "a")
    _ = try fixture.received(try QuerySpec("a"), "", "1", sequence: 3)
    _ = fixture.unlisten("a")
    let again = try fixture.listen("again", to: "a", for: .value)
    #expect(fixture.texts(again) == ["again value 1"])
    #expect(fixture.requests(again) == ["start /a since 3"])
    _ = fixture.unlisten("again")
    fixture.tree.forget([try QuerySpec("a")])
    #expect(fixture.texts(try fixture.listen("again", to: "a", for: .value)).isEmpty)
  }

  @Test
  mutating func
    `a whole location that was kept is asked for anew where only parts of it are shown`()
    throws
  {
    let data = [Assignment(.root, try Node(json: #"{"b":1,"c":2}"#))]
    store.record([.received(try QuerySpec("a"), data, sequence: 4)])
    let newest = try Query(order: .key, limit: .last(1))
    let part = [Assignment(.root, try Node(json: #"{"d":3}"#))]
    store.record([.received(QuerySpec(try Path("a"), newest), part, sequence: 9)])
    let fixture = SyncFixture()
    fixture.tree = SyncTree(restoring: store.load())
    _ = fixture.tree.connected()
    let narrow = try fixture.listen("newest", to: "a", newest, for: .value)
    #expect(fixture.texts(narrow) == [#"newest value {"d":3}"#])
    #expect(fixture.requests(narrow) == ["start /a narrow since 9"])
    // With only the changes since commit 4, the bounded query would miss `c` when `d` is removed.
    #expect(fixture.requests(try fixture.listen("all", to: "a")) == ["start /a", "stop 1"])
    _ = try fixture.received(try QuerySpec("a"), "", #"{"b":1,"c":2,"d":3}"#, sequence: 10)
    let removed = try fixture.received(
      try QuerySpec("a"), "d", "null", isPatch: true, sequence: 11)
    #expect(fixture.texts(removed).contains(#"newest value {"c":2}"#))
  }

  @Test mutating func `restored increments add to the saved value`() throws {
    store.record([.received(try QuerySpec("a"), [Assignment(.root, 10)], sequence: 4)])
    let increment = try Write.set(Location("a"), try WriteValue(json: #"{".sv":{"increment":2}}"#))
    store.record([.writeAdded(WriteID(1), increment, milliseconds: 0)])
    let fixture = SyncFixture()
    fixture.tree = SyncTree(restoring: store.load())
    #expect(fixture.texts(try fixture.listen("a", to: "a", for: .value)) == ["a value 12"])
  }

  @Test func `the use and the keeping of data are recorded`() throws {
    let fixture = SyncFixture()
    let kept = try fixture.listen("kept", to: "a", for: [])
    #expect(Self.texts(kept) == ["asked /a true", "kept /a true"])
    let second = try fixture.listen("value", to: "a", for: .value)
    #expect(Self.texts(second).isEmpty)
    #expect(Self.texts(fixture.unlisten("kept")) == ["kept /a false"])
    #expect(Self.texts(fixture.unlisten("value")) == ["asked /a false"])
  }

  private static func texts(_ effects: Effects) -> [String] {
    effects.changes.map { change in
      switch change {
      case .listening(let spec, let isAsked): "asked \(spec.path) \(isAsked)"
      case .kept(let spec, let isKept): "kept \(spec.path) \(isKept)"
      case .received(let spec, _, let sequence): "reported \(spec.path) \(sequence)"
      case .writeAdded(let id, _, _): "added \(id.number)"
      case .writeRemoved(let id): "removed \(id.number)"
      }
    }
  }
}
