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

  @Test func `what lies inside a whole location that is listened to is not asked for`()
    throws
  {
    #expect(fixture.asked(try fixture.listen("all", to: "a")) == ["start /a"])
    #expect(fixture.asked(try fixture.listen("inside", to: "a/b")).isEmpty)
    #expect(fixture.asked(try fixture.listen("newest", to: "a", newest)).isEmpty)
    #expect(fixture.asked(try fixture.listen("again", to: "a")).isEmpty)
    #expect(fixture.asked(try fixture.listen("beside", to: "b")) == ["start /b"])
    let told = fixture.texts(try fixture.told(try QuerySpec("a"), "", #"{"b":1,"c":2,"d":3}"#))
    #expect(told.contains("inside value 1"))
    #expect(told.contains(#"newest value {"c":2,"d":3}"#))
  }

  @Test func `a query inside a complete location is answered from what is here`() throws {
    _ = try fixture.listen("all", to: "a")
    _ = try fixture.told(try QuerySpec("a"), "", #"{"b":1,"c":2,"d":3}"#)
    #expect(fixture.texts(try fixture.listen("b", to: "a/b", for: .value)) == ["b value 1"])
    #expect(
      fixture.texts(try fixture.listen("newest", to: "a", newest, for: .value))
        == [#"newest value {"c":2,"d":3}"#])
    #expect(fixture.tree.value(of: try QuerySpec("a/c")) == 2)
  }

  @Test func `a wider listen takes over, and gives back when it ends`() throws {
    #expect(fixture.asked(try fixture.listen("deep", to: "a/b/c")) == ["start /a/b/c"])
    #expect(fixture.asked(try fixture.listen("newest", to: "a", newest)) == ["start /a narrow"])
    #expect(
      fixture.asked(try fixture.listen("all", to: "a")) == ["start /a", "stop 1", "stop 2"])
    _ = try fixture.told(try QuerySpec("a"), "", #"{"b":{"c":1}}"#, sequence: 7)
    let effects = fixture.unlisten("all")
    #expect(fixture.asked(effects) == ["start /a narrow", "start /a/b/c since 7", "stop 3"])
    #expect(fixture.texts(effects).isEmpty)
  }

  @Test func `of nested listens only the uppermost is asked for when one above ends`()
    throws
  {
    _ = try fixture.listen("root", to: "")
    _ = try fixture.listen("a", to: "a")
    _ = try fixture.listen("b", to: "a/b")
    #expect(fixture.asked(fixture.unlisten("root")) == ["start /a", "stop 1"])
    #expect(fixture.asked(fixture.unlisten("a")) == ["start /a/b", "stop 2"])
  }

  @Test func `the last of several listeners to a query ends it`() throws {
    _ = try fixture.listen("one", to: "a")
    _ = try fixture.listen("two", to: "a")
    #expect(fixture.asked(fixture.unlisten("one")).isEmpty)
    #expect(fixture.asked(fixture.unlisten("two")) == ["stop 1"])
    #expect(fixture.tree.views.isEmpty && fixture.tree.places.isEmpty)
  }

  @Test func `a new connection is asked for everything, from where the last one ended`()
    throws
  {
    _ = try fixture.listen("a", to: "a")
    _ = try fixture.listen("b", to: "b")
    _ = try fixture.told(try QuerySpec("a"), "", "1", sequence: 5)
    _ = try fixture.told(try QuerySpec("a"), "", "2", sequence: 9)
    _ = fixture.tree.disconnected()
    #expect(fixture.asked(try fixture.listen("c", to: "c")).isEmpty)
    #expect(
      fixture.asked(fixture.tree.connected()) == ["start /a since 9", "start /b", "start /c"])
  }

  @Test func `what comes late for a listen that was stopped is dropped`() throws {
    _ = try fixture.listen("a", to: "a")
    let tag = try #require(fixture.tree.listens[try QuerySpec("a")]?.tag)
    _ = fixture.unlisten("a")
    _ = try fixture.listen("a again", to: "a")
    let late = fixture.tree.changed(
      tag, [Assignment(.root, 1)], isPatch: false, sequence: 1)
    #expect(late.events.isEmpty)
  }

  @Test func `a refused listen ends its listeners, and those that it covered go on`()
    throws
  {
    _ = try fixture.listen("a", to: "a")
    _ = try fixture.listen("newest", to: "a", newest)
    _ = try fixture.listen("b", to: "a/b")
    let tag = try #require(fixture.tree.listens[try QuerySpec("a")]?.tag)
    let effects = fixture.tree.cancelled(tag)
    #expect(effects.cancelled == [ListenerID(0)])
    #expect(fixture.asked(effects) == ["start /a narrow", "start /a/b"])
  }

  @Test func `keeping a location synchronised asks for it and tells nobody`() throws {
    #expect(fixture.asked(try fixture.listen("kept", to: "a", for: [])) == ["start /a"])
    #expect(fixture.texts(try fixture.told(try QuerySpec("a"), "", "1")).isEmpty)
    #expect(fixture.texts(try fixture.listen("a", to: "a", for: .value)) == ["a value 1"])
  }

  @Test func `several listeners to one query each get the events that they want`() throws {
    _ = try fixture.listen("values", to: "a", for: .value)
    _ = try fixture.listen("children", to: "a", for: .children)
    _ = try fixture.listen("all", to: "a")
    #expect(
      fixture.texts(try fixture.told(try QuerySpec("a"), "", #"{"b":1}"#)) == [
        "children childAdded b 1", "all childAdded b 1", #"values value {"b":1}"#,
        #"all value {"b":1}"#,
      ])
  }
}

/// Listens tell of one commit one after the other, and a narrow query hears of its children from others.
struct NarrowQueryTests {
  private let fixture = SyncFixture()

  @Test func `a child that another listen tells of first takes nobody's place for good`() throws {
    let first = QuerySpec(.root, try Query(order: .key, limit: .first(2)))
    _ = fixture.tree.connected()
    _ = try fixture.listen("first", to: "", first.query, for: .value)
    _ = try fixture.listen("b", to: "b", for: .value)
    _ = try fixture.told(first, "", #"{"a":1,"c":3}"#)
    // By one commit `a` goes and `b` comes; the listen of `b` is told first.
    #expect(
      fixture.texts(try fixture.told(try QuerySpec("b"), "", "2"))
        == ["b value 2", #"first value {"a":1,"b":2}"#])
    let tag = try #require(fixture.tree.listens[first]?.tag)
    let patch = [
      Assignment(Path.root.child("a"), .absent), Assignment(Path.root.child("b"), 2),
    ]
    let effects = fixture.tree.changed(tag, patch, isPatch: true, sequence: 2)
    #expect(fixture.texts(effects) == [#"first value {"b":2,"c":3}"#])
  }

  @Test func `a narrow query that others have told of is asked for anew on a new connection`()
    throws
  {
    let first = QuerySpec(.root, try Query(order: .key, limit: .first(2)))
    _ = fixture.tree.connected()
    _ = try fixture.listen("first", to: "", first.query, for: .value)
    _ = try fixture.listen("b", to: "b", for: .value)
    _ = try fixture.told(first, "", #"{"a":1,"c":3}"#, sequence: 4)
    _ = fixture.tree.disconnected()
    #expect(fixture.asked(fixture.tree.connected()) == ["start / narrow since 4", "start /b"])
    _ = try fixture.told(try QuerySpec("b"), "", "2", sequence: 5)
    _ = fixture.tree.disconnected()
    #expect(fixture.asked(fixture.tree.connected()) == ["start / narrow", "start /b since 5"])
  }

  @Test func `a new listener inside a whole location takes what is told of all of it`() throws {
    let last = QuerySpec(.root, try Query(order: .key, limit: .last(1)))
    _ = fixture.tree.connected()
    _ = try fixture.listen("last", to: "", last.query, for: .value)
    _ = try fixture.listen("a", to: "a", for: .value)
    _ = try fixture.told(last, "", #"{"a":{"b":1}}"#)
    // The listen of `a`, which is ahead, will not tell of `b` again.
    _ = try fixture.told(try QuerySpec("a"), "", #"{"b":2}"#)
    _ = try fixture.told(last, "a", #"{"b":1}"#, isPatch: true)
    let inside = try fixture.listen("inside", to: "a/b", for: .value)
    #expect(fixture.texts(inside) == ["inside value 2"])
    #expect(fixture.asked(inside).isEmpty)
  }
}
