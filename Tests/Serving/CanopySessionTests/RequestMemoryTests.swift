import CanopyTree
import CanopyWire
import Testing

@testable import CanopySession

/// The estimate of the memory of decoded requests.
struct RequestMemoryTests {
  private func request(_ line: String) throws -> Request {
    var line = line
    return try line.withUTF8 { try Request(line: UnsafeRawBufferPointer($0), limits: Limits()) }
  }

  /// Returns an UPDATE of locations with so many keys each.
  private func update(_ count: Int, keys: Int, value: String = "1") -> String {
    let start = String(repeating: "a/", count: keys - 1)
    return "UPDATE / {" + (0..<count).map { "\"\(start)\($0)\":\(value)" }.joined(separator: ",")
      + "}"
  }

  @Test(arguments: ["", "ONCE c 1 0 ", "ONDISCONNECT ", "EXPLAIN null "])
  func `each location is charged with an array of its keys`(prefix: String) throws {
    for keys in [1, 17, 31] {
      let bytes = try request(prefix + update(100, keys: keys)).pathBytes
      // An array has a header of 32 bytes and 24 bytes for each key.
      #expect(bytes >= 100 * (100 + 32 + 24 * keys), "\(keys) keys")
      #expect(bytes <= 100 * (200 + 48 * keys))
    }
  }

  @Test func `each server value is charged with a path of its own`() throws {
    let value = "{\"a\":{\"b\":{\".sv\":\"timestamp\"}},\"c\":{\".sv\":{\"increment\":1}}}"
    for line in ["SET /x \(value)", "ONCE c 1 0 CAS /x e \(value)", "PUSH /x \(value)"] {
      #expect(try request(line).pathBytes == 2 * 200 + 3 * 48, "\(line)")
    }
    let update = try request(update(10, keys: 2, value: value)).pathBytes
    #expect(update == 10 * (200 + 2 * 48 + 2 * 200 + 3 * 48))
  }

  @Test func `requests without paths or server values cost nothing more than their line`() throws {
    for line in ["PING", "SET /a/b {\"c\":1}", "REMOVE /a", "POST title body", "LISTEN /a"] {
      #expect(try request(line).pathBytes == 0, "\(line)")
    }
  }

  private func bytes(_ text: String) -> Int {
    var text = text
    return text.withUTF8 { Request.memoryBytes(text: UnsafeRawBufferPointer($0)) }
  }

  @Test(arguments: [#"\u002e"#, #"\u002E"#])
  func `a priority is charged however its name is written`(point: String) throws {
    func level(_ point: String) -> String {
      #"{"\#(point)priority":1,"a":2}"#
    }
    let count = 100
    let plain = "[" + Array(repeating: level("."), count: count).joined(separator: ",") + "]"
    let escaped = "[" + Array(repeating: level(point), count: count).joined(separator: ",") + "]"
    #expect(try WriteValue(json: escaped).node == WriteValue(json: plain).node)
    // The text itself is longer.
    #expect(bytes(escaped) == bytes(plain) + count * (point.utf8.count - 1))
    #expect(bytes(plain) >= count * 350)
  }

  @Test func `an escape of another character is no priority, and a text may end within one`() {
    let other = Array(repeating: #""\u002f""#, count: 100).joined(separator: ",")
    #expect(bytes(other) == 1024 + other.utf8.count + 99 * 96)
    let start = String(repeating: " ", count: 300)
    for end in [#"""#, #""\"#, #""\u002"#] {
      #expect(bytes(start + end) == 1024 + 300 + 64 + end.utf8.count, "\(end)")
    }
    #expect(bytes(start + #""\u002e"#) > 1024 + 300 + 300)
  }

  /// Texts at the extremes: many elements in few bytes, and few elements of many bytes.
  static let extremes: [(String, String)] = {
    func list(_ element: String, _ count: Int) -> String {
      "[" + Array(repeating: element, count: count).joined(separator: ",") + "]"
    }
    func nested(_ open: String, _ close: String, _ levels: Int = 30) -> String {
      String(repeating: open, count: levels) + "1" + String(repeating: close, count: levels)
    }
    func object(_ count: Int, _ member: (Int) -> String) -> String {
      "{" + (0..<count).map(member).joined(separator: ",") + "}"
    }
    let long = String(repeating: "k", count: 300)
    let text16 = #""aaaaaaaaaaaaaaaa""#
    let forms: [(String, String)] = [
      ("a list of numbers", list("1", 10_000)),
      ("a list of decimals", list("1.5", 10_000)),
      ("a list of short strings", list(#""a""#, 5_000)),
      ("a list of strings with objects of their own", list(text16, 3_000)),
      ("a list of long strings", list("\"\(long)\"", 300)),
      (
        "a list of escaped strings", list("\"" + String(repeating: #"\""#, count: 17) + "\"", 3_000)
      ),
      ("deep lists", list(nested("[", "]"), 200)),
      ("deep objects of numbers", list(nested(#"{"1":"#, "}"), 200)),
      ("deep objects", list(nested(#"{"a":"#, "}"), 200)),
      ("short keys", object(5_000) { "\"a\($0)\":1" }),
      ("keys with objects of their own", object(3_000) { "\"kkkkkkkkkkkkk\($0 + 10_000)\":1" }),
      ("keys and strings", object(3_000) { "\"kkkkkkkkkkkkk\($0 + 10_000)\":\(text16)" }),
      ("long keys", object(300) { "\"\(long)\($0)\":1" }),
      (
        "records",
        object(500) { "\"-N00000000000000\($0 + 1_000)\":{\"title\":\"a\",\"likes\":{\"b\":1}}" }
      ),
      ("priorities", list(#"{".priority":1,".value":1}"#, 1_000)),
      ("priorities with text", list("{\".priority\":\(text16),\".value\":1}", 1_000)),
      ("deep priorities", list(nested(#"{".priority":1,"a":"#, "}"), 100)),
      ("one priority in each", list(#"{"1":{".priority":1,".value":1}}"#, 1_000)),
      ("nulls between", list("[null,1]", 2_000)),
    ]
    // Lists of each small length, in which the share of the pages differs.
    return forms + (1...80).map { ("lists of \($0)", list(list("1", $0), 100)) }
  }()

  @Test func `the memory of a decoded text is at most its charge`() throws {
    for (name, text) in Self.extremes {
      let taken = try WriteValue(json: text).node.measuredBytes
      #expect(taken > 0, "\(name)")
      #expect(taken <= bytes(text), "\(name): \(taken) bytes, charged \(bytes(text))")
    }
    // A request takes some bytes besides.
    for text in ["[[1],[1],[1],[1],[1],[1],[1],[1]]", #"{"1":{"1":{"1":1}}}"#] {
      #expect(try WriteValue(json: text).node.measuredBytes <= bytes(text), "\(text)")
    }
  }

  @Test func `an armed write is charged with its paths and server values`() throws {
    let items = try (0..<3).map { number in
      Write.Item(
        Location(try Path("a/b/\(number)")),
        try WriteValue(json: "{\"t\":{\".sv\":\"timestamp\"}}"))
    }
    let text = "UPDATE " + String(repeating: "a", count: 993)
    let armed = ArmedWrite(id: 1, write: try Write(items), caller: nil, text: text)
    #expect(armed.bytes == 1_000)
    #expect(armed.memoryBytes == 4_096 + 1_000 + 3 * (200 + 3 * 48 + 200 + 48))
  }

  @Test func `an armed write is charged with the elements of its values`() throws {
    let list = "[" + String(repeating: "1,", count: 9_999) + "1]"
    let value = try WriteValue(json: list)
    let armed = ArmedWrite(
      id: 1, write: try .set(Location("a"), value), caller: nil, text: "SET /a " + list)
    // A short element takes 64 bytes in a page of the tree.
    #expect(armed.memoryBytes >= 10_000 * 64)
  }
}
