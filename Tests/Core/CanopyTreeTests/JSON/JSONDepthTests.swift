import Testing

@testable import CanopyTree

struct JSONDepthTests {
  private func objects(_ count: Int, around text: String) -> String {
    String(repeating: #"{"a":"#, count: count) + text + String(repeating: "}", count: count)
  }

  private func arrays(_ count: Int, around text: String) -> String {
    String(repeating: "[", count: count) + text + String(repeating: "]", count: count)
  }

  @Test func `a value has at most 32 levels`() {
    #expect(Reading(objects(32, around: "1")).node?.height == 32)
    #expect(Reading(arrays(32, around: "1")).node?.height == 32)
    #expect(Reading(objects(33, around: "1")).offset != nil)
    #expect(Reading(arrays(33, around: "1")).offset != nil)
    #expect(Reading(objects(16, around: arrays(16, around: "1"))).node?.height == 32)
    #expect(Reading(objects(16, around: arrays(17, around: "1"))).offset != nil)
  }

  @Test func `an absent value may not be deeper either`() {
    for text in ["{}", "[]", "null"] {
      #expect(Reading(objects(32, around: text)).node?.isAbsent == true)
      #expect(Reading(objects(33, around: text)).offset != nil)
      #expect(Reading(arrays(33, around: text)).offset != nil)
    }
  }

  @Test func `a value on the deepest level may have a priority or be a server value`() {
    #expect(
      Reading(objects(32, around: #"{".value":1,".priority":2}"#)).node?.height == 32)
    let reading = Reading(objects(32, around: #"{".sv":{"increment":1}}"#))
    guard case .value(_, let values) = reading else {
      Issue.record("refused: \(reading)")
      return
    }
    #expect(values.map(\.path.count) == [32])
    #expect(Reading(objects(33, around: #"{".value":1,".priority":2}"#)).offset != nil)
    #expect(Reading(objects(33, around: #"{".sv":"timestamp"}"#)).offset != nil)
  }

  @Test func `a million levels are an error, not a crash`() throws {
    let million = 1_000_000
    for text in [
      String(repeating: "[", count: million), String(repeating: #"{"a":"#, count: million),
      String(repeating: #"[{"a":"#, count: million / 2), arrays(million, around: "1"),
    ] {
      let bytes = Array(text.utf8)
      #expect(Reading(bytes).offset != nil)
      #expect(Reading(bytes, pieces: 1 << 16).offset != nil)
      #expect(throws: TreeError.self) { try JSONValue(json: text) }
      #expect(throws: TreeError.self) {
        try bytes.withUnsafeBytes { try JSONReader.readUpdate(json: $0) }
      }
      #expect(throws: TreeError.self) {
        try bytes.withUnsafeBytes { try AssignmentCodec.decode($0) }
      }
    }
    for text in [#"{".value":"#, #"{".priority":"#, #"{".sv":"#, #"{".sv":{"increment":"#] {
      #expect(Reading(Array(String(repeating: text, count: million / 4).utf8)).offset != nil)
    }
  }

  @Test func `options and fixtures have at most 32 levels`() throws {
    #expect(try JSONValue(json: arrays(33, around: "")).elements != nil)
    #expect(throws: TreeError.self) { try JSONValue(json: arrays(34, around: "")) }
    #expect(try JSONValue(json: arrays(32, around: "1")).elements != nil)
    #expect(throws: TreeError.self) { try JSONValue(json: arrays(33, around: "1")) }
  }
}
