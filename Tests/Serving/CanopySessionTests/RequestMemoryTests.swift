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
