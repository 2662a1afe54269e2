import Testing

@testable import CanopyTree

/// An output with a drain gives the same bytes as one without.
struct JSONDrainTests {
  private static let large = Node(
    children: (0..<5000).map { i in
      (Key(index: Int32(i)), Node(String(repeating: "0123456789", count: i % 50)))
    })

  @Test func `the pieces together equal the whole`() throws {
    var pieces: [[UInt8]] = []
    var output = JSONOutput(drain: { pieces.append([UInt8]($0)) })
    output.append(Self.large)
    #expect(pieces.count > 5)
    try output.finish()
    #expect(output.count == 0)
    #expect(pieces.allSatisfy { $0.count <= 256 * 1024 })
    #expect(pieces.flatMap { $0 } == Array(Self.large.json().utf8))
  }

  @Test func `a string longer than a piece is drained`() throws {
    let text = String(repeating: "x\n", count: 300_000)
    var bytes: [UInt8] = []
    var output = JSONOutput(drain: { bytes += $0 })
    output.append(Int64(1))
    output.append(string: text)
    try output.finish()
    #expect(bytes == Array(("1" + Node(text).json()).utf8))
  }

  private struct Full: Error {}

  @Test func `after the drain has thrown the rest is dropped and finish throws`() {
    var calls = 0
    var output = JSONOutput(drain: { _ in
      calls += 1
      throw Full()
    })
    output.append(Self.large)
    #expect(throws: Full.self) { try output.finish() }
    #expect(throws: Full.self) { try output.finish() }
    #expect(calls == 1)
  }

  @Test func `an output without a drain keeps all bytes until they are removed`() {
    var output = JSONOutput(capacity: 1)
    output.append("[")
    output.append(Int64.min)
    output.append(UInt8(ascii: ","))
    output.append(raw: "é")
    output.append(key: "k\"")
    output.append(Self.large)
    #expect(output.text == "[-9223372036854775808,é\"k\\\"\"" + Self.large.json())
    #expect(output.count == output.bytes.count)
    output.removeAll()
    #expect(output.count == 0 && output.text.isEmpty)
    output.append(1.5)
    #expect(output.text == "1.5")
  }
}
