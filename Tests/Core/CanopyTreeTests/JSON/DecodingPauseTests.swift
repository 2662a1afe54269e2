import CanopyTesting
import Testing

@testable import CanopyTree

/// Long decoding that lets other work have turns.
struct DecodingPauseTests {
  private struct Ended: Error {}

  /// A text, and the number of its values.
  private static let texts: [(text: String, values: Int)] = {
    func list(_ count: Int, _ element: (Int) -> String) -> String {
      (0..<count).map(element).joined(separator: ",")
    }
    /// The numbers below 5,003 in another order.
    func mixed(_ index: Int) -> Int { index * 2_718 % 5_003 }
    let deep = String(repeating: "[", count: 28) + "1" + String(repeating: "]", count: 28)
    return [
      ("[\(list(5_000) { "\($0)" })]", 5_000),
      ("[\(list(5_000) { $0 % 2 == 0 ? "null" : "1" })]", 5_000),
      ("[\(list(5_000) { _ in "[1]" })]", 10_000),
      ("[\(list(200) { _ in deep })]", 5_600),
      ("{\(list(5_000) { "\"k\(10_000 + $0)\":1" })}", 5_000),
      ("{\(list(5_003) { "\"k\(mixed($0))\":1" })}", 5_003),
      ("{\(list(5_000) { "\"k\($0 % 7)\":\($0)" })}", 5_000),
      ("{\(list(5_003) { "\"k\($0)\":{\".value\":1,\".priority\":\(mixed($0))}" })}", 5_003),
      ("\"\(String(repeating: "\\u0041", count: 5_000))\"", 5_000),
      ("{\"a\":\"\(String(repeating: "\\n", count: 5_000))\"}", 5_000),
      ("{\"a\":{\".sv\":\"timestamp\"},\"b\":[\(list(5_000) { "\($0)" })]}", 5_000),
    ]
  }()

  private func read(_ text: String, _ pause: DecodingPause) throws(TreeError) -> WriteValue {
    try text.withUTF8Bytes { bytes in
      Result { () throws(TreeError) in try WriteValue(json: bytes, pausing: pause) }
    }.get()
  }

  @Test(arguments: texts.indices)
  func `reading pauses at each value, and the result is the same`(index: Int) throws {
    let (text, values) = Self.texts[index]
    var pauses = 0
    let value = try read(text, DecodingPause { pauses += 1 })
    #expect(pauses >= values)
    let whole = try read(text, .none)
    #expect(value.node == whole.node && value.serverValues == whole.serverValues)
    #expect(value.node.json(.export) == whole.node.json(.export))
    #expect(value.node.brokenInvariant() == nil)
  }

  @Test(arguments: [5, 7])
  func `the children of a large branch are sorted with pauses`(index: Int) throws {
    let (text, values) = Self.texts[index]
    var pauses = 0
    _ = try read(text, DecodingPause { pauses += 1 })
    // More than one for each value: sorting compares each several times.
    #expect(pauses > 5 * values)
  }

  @Test(arguments: texts.indices)
  func `reading ends at any pause that fails`(index: Int) throws {
    let (text, _) = Self.texts[index]
    var all = 0
    _ = try read(text, DecodingPause { all += 1 })
    for last in [1, all / 3, all / 2, all - 1] {
      var pauses = 0
      let pause = DecodingPause {
        pauses += 1
        if pauses >= last { throw Ended() }
      }
      #expect(throws: TreeError.self) { try read(text, pause) }
      #expect(pauses == last)
    }
  }

  @Test func `an update pauses at each value of each location`() throws {
    let list = (0..<500).map { "\($0)" }.joined(separator: ",")
    let text = "{\"a/b\":[\(list)],\"c\":{\"d\":[\(list)]}}"
    var pauses = 0
    let pause = DecodingPause { pauses += 1 }
    let changes = try Array(text.utf8).withUnsafeBytes { bytes in
      Result { try JSONReader.readUpdate(json: bytes, pausing: pause) }
    }.get()
    #expect(pauses >= 1_000)
    #expect(changes.map(\.0.text) == ["a/b", "c"])
    let values = [try Node(json: "[\(list)]"), try Node(json: "{\"d\":[\(list)]}")]
    #expect(changes.map(\.1.node) == values)
  }
}
