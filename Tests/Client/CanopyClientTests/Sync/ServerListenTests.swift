import CanopyTree
import Testing

@testable import CanopyClient

struct ServerListenTests {
  private let fixture = SyncFixture()
  private let newest: Query

  init() throws {
    newest = try Query(order: .key, limit: .last(2))
    _ = fixture.tree.connected()
  }

  @Test func `a query inside a whole location has no listen of its own`()
    throws
  {
    #expect(fixture.requests(try fixture.listen("all", to: "a")) == ["start /a"])
    #expect(fixture.requests(try fixture.listen("inside", to: "a/b")).isEmpty)
    #expect(fixture.requests(try fixture.listen("newest", to: "a", newest)).isEmpty)
    #expect(fixture.requests(try fixture.listen("again", to: "a")).isEmpty)
    #expect(fixture.requests(try fixture.listen("beside", to: "b")) == ["start /b"])
    let reported = fixture.texts(
      try fixture.received(try QuerySpec("a"), "", #"{"b":1,"c":2,"d":3}"#))
    #expect(reported.contains("inside value 1"))
    #expect(reported.contains(#"newest value {"c":2,"d":3}"#))
  }

  @Test func `a query inside a complete location is answered locally`() throws {
    _ = try fixture.listen("all", to: "a")
    _ = try fixture.received(try QuerySpec("a"), "", #"{"b":1,"c":2,"d":3}"#)
    #expect(fixture.texts(try fixture.listen("b", to: "a/b", for: .value)) == ["b value 1"])
    #expect(
      fixture.texts(try fixture.listen("newest", to: "a", newest, for: .value))
        == [#"newest value {"c":2,"d":3}"#])
    #expect(fixture.tree.value(of: try QuerySpec("a/c")) == 2)
  }

  @Test func `a wider listen replaces narrower ones until it ends`() throws {
    #expect(fixture.requests(try fixture.listen("deep", to: "a/b/c")) == ["start /a/b/c"])
    #expect(fixture.requests(try fixture.listen("newest", to: "a", newest)) == ["start /a narrow"])
    #expect(
      fixture.requests(try fixture.listen("all", to: "a")) == ["start /a", "stop 1", "stop 2"])
    _ = try fixture.received(try QuerySpec("a"), "", #"{"b":{"c":1}}"#, sequence: 7)
    let effects = fixture.unlisten("all")
    #expect(fixture.requests(effects) == ["start /a narrow", "start /a/b/c since 7", "stop 3"])
    #expect(fixture.texts(effects).isEmpty)
  }

  @Test func `when a listen ends only the uppermost of the nested ones start`()
    throws
  {
    _ = try fixture.listen("root", to: "")
    _ = try fixture.listen("a", to: "a")
    _ = try fixture.listen("b", to: "a/b")
    #expect(fixture.requests(fixture.unlisten("root")) == ["start /a", "stop 1"])
    #expect(fixture.requests(fixture.unlisten("a")) == ["start /a/b", "stop 2"])
  }

  @Test func `the last listener of a query stops its listen`() throws {
    _ = try fixture.listen("one", to: "a")
    _ = try fixture.listen("two", to: "a")
    #expect(fixture.requests(fixture.unlisten("one")).isEmpty)
    #expect(fixture.requests(fixture.unlisten("two")) == ["stop 1"])
    #expect(fixture.tree.views.isEmpty && fixture.tree.viewsByPath.isEmpty)
  }

  @Test func `a new connection resumes all listens`()
    throws
  {
    _ = try fixture.listen("a", to: "a")
    _ = try fixture.listen("b", to: "b")
    _ = try fixture.received(try QuerySpec("a"), "", "1", sequence: 5)
    _ = try fixture.received(try QuerySpec("a"), "", "2", sequence: 9)
    _ = fixture.tree.disconnected()
    #expect(fixture.requests(try fixture.listen("c", to: "c")).isEmpty)
    #expect(
      fixture.requests(fixture.tree.connected()) == ["start /a since 9", "start /b", "start /c"])
  }

  @Test func `late events of a stopped listen are dropped`() throws {
    _ = try fixture.listen("a", to: "a")
    let tag = try #require(fixture.tree.listens[try QuerySpec("a")]?.tag)
    _ = fixture.unlisten("a")
    _ = try fixture.listen("a again", to: "a")
    let late = fixture.tree.changed(
      tag, [Assignment(.root, 1)], isPatch: false, sequence: 1)
    #expect(late.events.isEmpty)
  }

  @Test func `a refused listen removes its listeners, and covered ones continue`()
    throws
  {
    _ = try fixture.listen("a", to: "a")
    _ = try fixture.listen("newest", to: "a", newest)
    _ = try fixture.listen("b", to: "a/b")
    let tag = try #require(fixture.tree.listens[try QuerySpec("a")]?.tag)
    let effects = fixture.tree.cancelled(tag)
    #expect(effects.cancelled == [ListenerID(0)])
    #expect(fixture.requests(effects) == ["start /a narrow", "start /a/b"])
  }

  @Test func `keeping a location synchronized starts a listen without events`() throws {
    #expect(fixture.requests(try fixture.listen("kept", to: "a", for: [])) == ["start /a"])
    #expect(fixture.texts(try fixture.received(try QuerySpec("a"), "", "1")).isEmpty)
    #expect(fixture.texts(try fixture.listen("a", to: "a", for: .value)) == ["a value 1"])
  }

  @Test func `several listeners of one query each get their kinds of events`() throws {
    _ = try fixture.listen("values", to: "a", for: .value)
    _ = try fixture.listen("children", to: "a", for: .children)
    _ = try fixture.listen("all", to: "a")
    #expect(
      fixture.texts(try fixture.received(try QuerySpec("a"), "", #"{"b":1}"#)) == [
        "children childAdded b 1", "all childAdded b 1", #"values value {"b":1}"#,
        #"all value {"b":1}"#,
      ])
  }
}

/// Listens report one commit one after the other, and other listens report children of a bounded
/// query.
struct NarrowQueryTests {
  private let fixture = SyncFixture()

  @Test func `a child that another listen reports first displaces no other for good`() throws {
    let first = QuerySpec(.root, try Query(order: .key, limit: .first(2)))
    _ = fixture.tree.connected()
    _ = try fixture.listen("first", to: "", first.query, for: .value)
    _ = try fixture.listen("b", to: "b", for: .value)
    _ = try fixture.received(first, "", #"{"a":1,"c":3}"#)
    // One commit removes `a` and adds `b`; the listen of `b` reports first.
    #expect(
      fixture.texts(try fixture.received(try QuerySpec("b"), "", "2"))
        == ["b value 2", #"first value {"a":1,"b":2}"#])
    let tag = try #require(fixture.tree.listens[first]?.tag)
    let patch = [
      Assignment(Path.root.child("a"), .absent), Assignment(Path.root.child("b"), 2),
    ]
    let effects = fixture.tree.changed(tag, patch, isPatch: true, sequence: 2)
    #expect(fixture.texts(effects) == [#"first value {"b":2,"c":3}"#])
  }

  @Test func `a bounded query with reports of others restarts on a new connection`()
    throws
  {
    let first = QuerySpec(.root, try Query(order: .key, limit: .first(2)))
    _ = fixture.tree.connected()
    _ = try fixture.listen("first", to: "", first.query, for: .value)
    _ = try fixture.listen("b", to: "b", for: .value)
    _ = try fixture.received(first, "", #"{"a":1,"c":3}"#, sequence: 4)
    _ = fixture.tree.disconnected()
    #expect(fixture.requests(fixture.tree.connected()) == ["start / narrow since 4", "start /b"])
    _ = try fixture.received(try QuerySpec("b"), "", "2", sequence: 5)
    _ = fixture.tree.disconnected()
    #expect(fixture.requests(fixture.tree.connected()) == ["start / narrow", "start /b since 5"])
  }

  @Test func `a new listener inside a whole location uses its data`() throws {
    let last = QuerySpec(.root, try Query(order: .key, limit: .last(1)))
    _ = fixture.tree.connected()
    _ = try fixture.listen("last", to: "", last.query, for: .value)
    _ = try fixture.listen("a", to: "a", for: .value)
    _ = try fixture.received(last, "", #"{"a":{"b":1}}"#)
    // The listen of `a`, which is ahead, will not report `b` again.
    _ = try fixture.received(try QuerySpec("a"), "", #"{"b":2}"#)
    _ = try fixture.received(last, "a", #"{"b":1}"#, isPatch: true)
    let inside = try fixture.listen("inside", to: "a/b", for: .value)
    #expect(fixture.texts(inside) == ["inside value 2"])
    #expect(fixture.requests(inside).isEmpty)
  }
}

struct QuerySpecTests {
  @Test
  func `one listen serves all orders of a whole location, and each bounded query has its own`()
    throws
  {
    let path = try Path("posts")
    let byStars = QuerySpec(path, try Query(order: .child(try Path("starCount"))))
    #expect(byStars.serverSpec == QuerySpec(path))
    let newest = QuerySpec(path, try Query(order: .key, limit: .last(2)))
    #expect(newest.serverSpec == newest)
  }
}
