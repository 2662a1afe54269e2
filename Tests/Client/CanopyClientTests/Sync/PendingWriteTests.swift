import CanopyTree
import Testing

@testable import CanopyClient

struct PendingWriteTests {
  private let fixture = SyncFixture()

  @Test func `a write is visible at once, and its confirmation has no event`() throws {
    _ = try fixture.listen("a", to: "a", for: .value)
    #expect(fixture.texts(try fixture.received(try QuerySpec("a"), "", "1")) == ["a value 1"])
    let (id, effects) = try fixture.set("a", "2")
    #expect(fixture.texts(effects) == ["a value 2"])
    #expect(fixture.texts(try fixture.received(try QuerySpec("a"), "", "2")).isEmpty)
    #expect(fixture.texts(fixture.tree.acknowledged(id)).isEmpty)
    #expect(fixture.tree.writes.isEmpty)
  }

  @Test func `a refused write is undone with the opposite events`() throws {
    _ = try fixture.listen("a", to: "a")
    _ = try fixture.received(try QuerySpec("a"), "", #"{"b":1,"c":2}"#)
    let (id, effects) = try fixture.set("a/b", "null")
    #expect(fixture.texts(effects) == ["a childRemoved b 1", #"a value {"c":2}"#])
    #expect(
      fixture.texts(fixture.tree.refused(id)) == ["a childAdded b 1", #"a value {"b":1,"c":2}"#])
  }

  @Test func `a refused write that was the only data removes the children`() throws {
    _ = try fixture.listen("a", to: "a")
    let (id, effects) = try fixture.set("a", #"{"b":1}"#)
    #expect(fixture.texts(effects) == ["a childAdded b 1", #"a value {"b":1}"#])
    // The data is unknown again: there is no value event.
    #expect(fixture.texts(fixture.tree.refused(id)) == ["a childRemoved b 1"])
    #expect(fixture.tree.value(of: try QuerySpec("a")) == nil)
  }

  @Test
  func `confirmed data that the server has not reported stays visible, with later writes`()
    throws
  {
    _ = try fixture.listen("a", to: "a")
    let (first, _) = try fixture.set("a", #"{"b":1}"#)
    let (second, _) = try fixture.set("a/c", "2")
    #expect(fixture.texts(fixture.tree.acknowledged(first)).isEmpty)
    #expect(fixture.texts(fixture.tree.acknowledged(second)).isEmpty)
    #expect(
      fixture.texts(try fixture.received(try QuerySpec("a"), "", #"{"b":1,"c":3}"#))
        == ["a childChanged c 3", #"a value {"b":1,"c":3}"#])
  }

  @Test func `writes are sent in order, and again on a new connection`()
    throws
  {
    let ids = try (0..<3).map { try fixture.set("a/\($0)", "1").id }
    #expect(fixture.tree.nextRequest() == nil)
    _ = fixture.tree.connected()
    #expect(fixture.sent() == ids)
    _ = fixture.tree.acknowledged(ids[0])
    let later = try fixture.set("a/b", "1").id
    _ = fixture.tree.disconnected()
    #expect(fixture.tree.nextRequest() == nil)
    _ = fixture.tree.connected()
    #expect(fixture.sent() == [ids[1], ids[2], later])
  }

  @Test func `dropping all writes undoes them in one step`() throws {
    _ = try fixture.listen("a", to: "a", for: .value)
    _ = try fixture.received(try QuerySpec("a"), "", "1")
    let ids = try (2..<5).map { try fixture.set("a", "\($0)").id }
    let (given, effects) = fixture.tree.purgeWrites()
    #expect(given == ids)
    #expect(fixture.texts(effects) == ["a value 1"])
    #expect(fixture.tree.nextRequest() == nil)
  }

  // MARK: Server values

  @Test func `a timestamp is local until the server reports its own`() throws {
    _ = try fixture.listen("a", to: "a", for: .value)
    let (id, effects) = try fixture.set("a", #"{".sv":"timestamp"}"#, at: 1_000)
    #expect(fixture.texts(effects) == ["a value 1000"])
    #expect(fixture.texts(try fixture.received(try QuerySpec("a"), "", "1007")).isEmpty)
    #expect(fixture.texts(fixture.tree.acknowledged(id)) == ["a value 1007"])
  }

  @Test func `increments add up, before and after the base value is known`() throws {
    _ = try fixture.listen("a", to: "a", for: .value)
    let increment = #"{".sv":{"increment":2}}"#
    #expect(fixture.texts(try fixture.set("a", increment).effects) == ["a value 2"])
    #expect(fixture.texts(try fixture.set("a", increment).effects) == ["a value 4"])
    #expect(fixture.texts(try fixture.received(try QuerySpec("a"), "", "10")) == ["a value 14"])
    #expect(fixture.texts(try fixture.received(try QuerySpec("a"), "", "20")) == ["a value 24"])
  }

  @Test func `a sent increment is never counted twice`() throws {
    _ = fixture.tree.connected()
    _ = try fixture.listen("a", to: "a", for: .value)
    _ = try fixture.received(try QuerySpec("a"), "", "10")
    let increment = #"{".sv":{"increment":2}}"#
    let first = try fixture.set("a", increment)
    let second = try fixture.set("a", increment)
    #expect(
      fixture.texts(first.effects) + fixture.texts(second.effects) == ["a value 12", "a value 14"])
    #expect(fixture.sent() == [first.id, second.id])
    for (id, value) in [(first.id, "12"), (second.id, "14")] {
      #expect(fixture.texts(try fixture.received(try QuerySpec("a"), "", value)).isEmpty)
      #expect(fixture.texts(fixture.tree.acknowledged(id)).isEmpty)
    }
  }

  @Test func `a refused increment is subtracted from later ones`()
    throws
  {
    _ = fixture.tree.connected()
    _ = try fixture.listen("a", to: "a", for: .value)
    _ = try fixture.received(try QuerySpec("a"), "", "10")
    let first = try fixture.set("a", #"{".sv":{"increment":1}}"#).id
    _ = try fixture.set("a", #"{".sv":{"increment":5}}"#)
    _ = fixture.sent()
    #expect(fixture.texts(fixture.tree.refused(first)) == ["a value 15"])
  }
}

extension SyncFixture {
  /// Sends all requests that can be sent.
  ///
  /// - Returns: the plain writes.
  func sent() -> [WriteID] {
    var ids: [WriteID] = []
    while let request = tree.nextRequest() {
      if case .write(let id, _) = request { ids.append(id) }
    }
    return ids
  }
}
