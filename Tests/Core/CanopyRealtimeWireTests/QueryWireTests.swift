import CanopyTesting
import CanopyTree
import Testing

@testable import CanopyRealtimeWire

/// Queries in the form of the realtime protocol.
struct QueryWireTests {
  private func query(_ json: String) throws -> Query { try Query(wire: JSONValue(json: json)) }

  @Test func `the parts of a query have their names`() throws {
    #expect(try query("{}") == .all)
    #expect(try query("null") == .all)
    #expect(
      try query(#"{"l":2,"vf":"r","i":".key"}"#) == Query(order: .key, limit: .last(2)))
    #expect(
      try query(#"{"sp":1,"ep":5,"ein":false,"i":"a/b"}"#)
        == Query(
          order: .child(Path("a/b")), lower: .init(.integer(1)),
          upper: .init(.integer(5), isInclusive: false)))
    #expect(
      try query(#"{"sp":"x","sn":"k","i":".value"}"#)
        == Query(order: .value, lower: .init(.string(Array("x".utf8)), key: "k")))
    #expect(
      try query(#"{"sp":"k","sin":false,"i":".key"}"#)
        == Query(order: .key, lower: .init(.absent, key: "k", isInclusive: false)))
  }

  @Test func `names that no key can have stand before and after all keys`() throws {
    func lower(_ json: String) throws -> Query.Bound? { try query(json).lower }
    func upper(_ json: String) throws -> Query.Bound? { try query(json).upper }
    for isInclusive in [true, false] {
      #expect(
        try lower(#"{"sp":1,"sn":"[MIN_NAME]","sin":\#(isInclusive)}"#) == .init(.integer(1)))
      #expect(
        try lower(#"{"sp":1,"sn":"[MAX_NAME]","sin":\#(isInclusive)}"#)
          == .init(.integer(1), isInclusive: false))
      #expect(
        try upper(#"{"ep":1,"en":"[MIN_NAME]","ein":\#(isInclusive)}"#)
          == .init(.integer(1), isInclusive: false))
      #expect(
        try upper(#"{"ep":1,"en":"[MAX_NAME]","ein":\#(isInclusive)}"#) == .init(.integer(1)))
    }
    #expect(try lower(#"{"sp":"[MIN_NAME]","i":".key"}"#) == nil)
    #expect(try upper(#"{"ep":"[MAX_NAME]","i":".key"}"#) == nil)
  }

  @Test func `a limit without a side begins at the start if there is one`() throws {
    #expect(try query(#"{"l":1,"sp":1}"#).limit == .first(1))
    #expect(try query(#"{"l":1}"#).limit == .last(1))
  }

  @Test(arguments: [
    "1", "[]", #"{"l":0,"vf":"l"}"#, #"{"l":-1,"vf":"l"}"#, #"{"l":1.5,"vf":"l"}"#,
    #"{"l":1,"vf":"x"}"#, #"{"i":1}"#, #"{"i":""}"#, #"{"i":"a.b"}"#, #"{"sn":"k"}"#,
    #"{"sp":{}}"#, #"{"sp":1,"i":".key"}"#, #"{"sp":1,"sn":"a.b"}"#, #"{"sp":1,"sin":1}"#,
    #"{"sp":1,"sn":2}"#, #"{"other":1}"#,
  ])
  func `a query that is malformed is refused`(json: String) {
    #expect(throws: TreeError.self) { try query(json) }
  }

  @Test func `a random query that is encoded and decoded is the same`() throws {
    var random = SeededGenerator(printingSeedFor: "random queries")
    let values: [BoundValue] = [
      .absent, .bool(true), .integer(.max), .double(0.5), .string(Array("e\u{301}\"".utf8)),
    ]
    for _ in 0..<2000 {
      let order: Order = random.pick([
        .key, .value, .priority, .child(Path.root.child("a").child("é")),
      ])
      func bound() -> Query.Bound? {
        if random.oneIn(3) { return nil }
        let isInclusive = random.oneIn(2)
        let key: Key? = order == .key || random.oneIn(2) ? random.pick(RandomWrites.keys) : nil
        let value: BoundValue = order == .key ? .absent : random.pick(values)
        return Query.Bound(value, key: key, isInclusive: isInclusive)
      }
      let limit: Query.Limit? = random.pick([nil, .first(1), .last(100)])
      let query = try Query(order: order, lower: bound(), upper: bound(), limit: limit)
      var output = JSONOutput()
      output.append(wire: query)
      #expect(try Query(wire: JSONValue(json: output.text)) == query)
    }
  }
}
