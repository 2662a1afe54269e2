import Testing

@testable import CanopyTree

/// `.value`, `.priority` and `.sv` in values.
struct JSONSpecialMemberTests {
  static let members: [(String, Node)] = [
    (#"{".value":1}"#, Node(1)), (#"{".value":null}"#, .absent), (#"{".value":"x"}"#, "x"),
    (#"{".value":1,".priority":2}"#, Node(1).withPriority(2)),
    (#"{".priority":"p",".value":true}"#, Node(true).withPriority("p")),
    (#"{".value":1,".priority":null}"#, 1), (#"{".value":null,".priority":1}"#, .absent),
    (#"{".priority":1}"#, .absent), (#"{".priority":1,"a":null}"#, .absent),
    (#"{".priority":1,"a":2}"#, Node.of(["a": 2]).withPriority(1)),
    (#"{"a":2,".priority":1}"#, Node.of(["a": 2]).withPriority(1)),
    (#"{"a":{".value":2,".priority":1}}"#, .of(["a": Node(2).withPriority(1)])),
    (#"{".value":1,"a":null}"#, 1), (#"{".value":1,".value":2}"#, 2),
    (#"{".value":1,".priority":1,".priority":2}"#, Node(1).withPriority(2)),
    (#"{"\u002evalue":3}"#, 3),
  ]

  @Test(arguments: members)
  func `values and priorities`(text: String, expected: Node) {
    #expect(Reading(text) == .value(expected, []), "\(text): \(Reading(text))")
  }

  @Test(arguments: [
    #"{".value":1,"a":2}"#, #"{"a":2,".value":1}"#, #"{".value":{}}"#, #"{".value":[]}"#,
    #"{".value":{"a":1}}"#, #"{".value":{".sv":"timestamp"},"a":1}"#,
    #"{".value":{".sv":"timestamp",".priority":1}}"#, #"{".value":{".value":1}}"#,
    #"{".value":null,"a":1}"#, #"{".priority":true,"a":1}"#,
    #"{".priority":{},"a":1}"#, #"{".priority":[],"a":1}"#, #"{".priority":{"a":1},"a":1}"#,
    #"{".sv":"timestamp","a":1}"#, #"{"a":1,".sv":"timestamp"}"#,
    #"{".sv":"timestamp",".value":1}"#,
    #"{".sv":"other"}"#, #"{".sv":1}"#, #"{".sv":{}}"#, #"{".sv":{"increment":"1"}}"#,
    #"{".sv":{"increment":null}}"#, #"{".sv":{"increment":1,"x":2}}"#, #"{".sv":{"decrement":1}}"#,
    #"{".sv":null}"#, #"{".value":1,"a":{".sv":"timestamp"}}"#,
    #"{"a":{".sv":"timestamp"},"a":1}"#, #"{"a":1,"a":{".sv":"timestamp"}}"#,
    #"{"a":{"b":{".sv":"timestamp"}},"c":1,"a":{"d":2}}"#,
    #"{".priority":{".sv":"timestamp","x":1},"a":1}"#,
  ])
  func `contradictory combinations are refused`(text: String) {
    #expect(Reading(text).offset != nil, "\(text): \(Reading(text))")
  }

  private func placed(
    _ path: Path, _ value: ServerValue, isPriority: Bool = false
  ) -> LocatedServerValue {
    LocatedServerValue(path: path, isPriority: isPriority, value: value)
  }

  @Test func `server values are returned with their paths`() {
    #expect(Reading(#"{".sv":"timestamp"}"#) == .value(.absent, [placed("", .timestamp)]))
    #expect(
      Reading(#"{".value":{".sv":"timestamp"}}"#) == .value(.absent, [placed("", .timestamp)]))
    #expect(
      Reading(#"{"a":{".priority":{".sv":"timestamp"},".value":{".sv":{"increment":1}}}}"#)
        == .value(
          .absent, [placed("a", .increment(1)), placed("a", .timestamp, isPriority: true)]))
    #expect(
      Reading(#"{"a":{"b":[1,{".sv":{"increment":-2.5}}]},"c":{".sv":"timestamp"}}"#)
        == .value(
          .of(["a": .of(["b": .of(["0": 1])])]),
          [placed("a/b/1", .increment(Node(-2.5) ?? 0)), placed("c", .timestamp)]))
    #expect(
      Reading(#"{"a":{".value":1,".priority":{".sv":"timestamp"}}}"#)
        == .value(.of(["a": 1]), [placed("a", .timestamp, isPriority: true)]))
    #expect(
      Reading(#"{".sv":"timestamp",".priority":7}"#)
        == .value(
          .absent, [placed("", .timestamp), placed("", .constant(7), isPriority: true)]))
    #expect(
      Reading(#"{".priority":{".sv":{"increment":1}},"a":2}"#)
        == .value(.of(["a": 2]), [placed("", .increment(1), isPriority: true)]))
  }

  @Test func `a value has at most 1,000 server values`() {
    let value = #"{".sv":"timestamp"}"#
    func list(_ count: Int) -> String {
      "[" + [String](repeating: value, count: count).joined(separator: ",") + "]"
    }
    #expect(Reading(list(1000)).node != nil)
    #expect(Reading(list(1001)).offset != nil)
  }

  @Test func `the values of an update have at most 1,000 server values together`() throws {
    let value = #"{".sv":"timestamp"}"#
    func read(_ counts: [Int]) throws(TreeError) -> Int {
      let members = counts.enumerated().map { index, count in
        #""k\#(index)":[\#([String](repeating: value, count: count).joined(separator: ","))]"#
      }
      let text = "{\(members.joined(separator: ","))}"
      let result = text.withUTF8Bytes { bytes in
        Result { () throws(TreeError) in try JSONReader.readUpdate(json: bytes) }
      }
      return try result.get().reduce(0) { $0 + $1.1.serverValues.count }
    }
    #expect(try read([600, 400]) == 1_000)
    #expect(throws: TreeError.self) { try read([600, 401]) }
    #expect(throws: TreeError.self) { try read([Int](repeating: 1, count: 1_001)) }
  }

  @Test func `server values are refused where they are not allowed`() {
    let text = #"{"a":{".sv":"timestamp"}}"#
    #expect(throws: TreeError.self) { try Node(json: text) }
  }
}
