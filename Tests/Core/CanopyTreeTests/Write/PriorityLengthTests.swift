import CanopyTesting
import Testing

@testable import CanopyTree

/// The bound on priorities, and on the bytes of strings that decide the order.
struct PriorityLengthTests {
  private let longest = String(repeating: "p", count: Limits().priorityBytesMax)

  @Test func `a priority within a value may have the bytes of the bound, and no more`() throws {
    for text in [longest, longest + "p"] {
      let isAllowed = text == longest
      for json in [
        #"{".value":1,".priority":"\#(text)"}"#, #"{"a":{"b":1,".priority":"\#(text)"}}"#,
      ] {
        let value = try? WriteValue(json: json, limits: Limits())
        #expect((value != nil) == isAllowed)
        #expect(throws: Never.self) { try WriteValue(json: json, limits: .none) }
      }
    }
    // A character of two bytes.
    #expect(throws: TreeError.self) {
      try WriteValue(
        json: #"{".value":1,".priority":"\#(longest.dropLast())é"}"#, limits: Limits())
    }
  }

  @Test func `a priority that is a location may have the bytes of the bound, and no more`() throws {
    for text in [longest, longest + "p"] {
      let write = try Write.set(
        Location("a/.priority"), try WriteValue(json: "\"\(text)\"", limits: Limits()))
      if text == longest {
        try write.checkPriorities(Limits())
      } else {
        #expect(throws: TreeError.self) { try write.checkPriorities(Limits()) }
      }
    }
  }

  @Test func `the first bytes of long strings decide their order, and then the keys`() {
    let prefix = String(repeating: "x", count: Limits.boundBytesMax)
    func compare(_ a: String, _ b: String) -> Int {
      OrderValue.compare(.string(prefix + a), .string(prefix + b))
    }
    // A bound may have as many bytes as the prefix, so a longer string comes after it.
    #expect(compare("a", "") > 0 && compare("", "a") < 0)
    #expect(compare("a", "b") < 0)
    #expect(compare("aa", "ab") == 0 && compare("a", "abc") == 0)
  }
}
