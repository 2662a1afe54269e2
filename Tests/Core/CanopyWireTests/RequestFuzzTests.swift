import CanopyTesting
import CanopyTree
import CanopyWire
import Testing

@Suite(.timeLimit(.minutes(20))) struct RequestFuzzTests {
  private func check(_ line: [UInt8]) {
    guard case .failure(let error) = outcome(line) else { return }
    let sentence = error.sentence
    if sentence.isEmpty || !isOneLine(sentence) || sentence.utf8.count > 2_000 {
      Issue.record("\(error.code): \(sentence) for \(line)")
    }
  }

  @Test func `random bytes are a request or an error of one printable line`() {
    var random = SeededGenerator(printingSeedFor: "RequestFuzzTests.bytes")
    for _ in 0..<20_000 {
      check(random.bytes(Int.random(in: 0...60, using: &random)))
    }
  }

  @Test func `random JSON characters after a verb are a request or an error of one line`() {
    var random = SeededGenerator(printingSeedFor: "RequestFuzzTests.characters")
    let alphabet = Array("{}[]\"\"\\:,, /.$-019eEtfnu\u{e9}\u{2028}\0".utf8)
    for _ in 0..<20_000 {
      let verb = Array((Sample.all.randomElement(using: &random)?.verb ?? "SET").utf8)
      let rest = (0..<Int.random(in: 0...40, using: &random)).map { _ in
        alphabet.randomElement(using: &random) ?? 0
      }
      check(verb + [0x20] + rest)
    }
  }

  @Test func `mutated valid lines are a request or an error of one printable line`() {
    var random = SeededGenerator(printingSeedFor: "RequestFuzzTests.mutations")
    let lines = Sample.all.map { Array($0.maximum.utf8) }
    for _ in 0..<30_000 {
      var line = lines.randomElement(using: &random) ?? []
      for _ in 0..<Int.random(in: 1...4, using: &random) {
        mutate(&line, lines, &random)
      }
      check(line)
    }
  }

  private func mutate(_ line: inout [UInt8], _ lines: [[UInt8]], _ random: inout SeededGenerator) {
    let position = Int.random(in: 0...line.count, using: &random)
    let length = Int.random(in: 0...min(8, line.count - position), using: &random)
    switch Int.random(in: 0..<6, using: &random) {
    case 0: line.insert(UInt8.random(in: .min ... .max, using: &random), at: position)
    case 1 where position < line.count:
      line[position] ^= 1 << UInt8.random(in: 0..<8, using: &random)
    case 2: line.removeSubrange(position..<position + length)
    case 3: line.insert(contentsOf: line[position..<position + length], at: position)
    case 4: line.removeSubrange(position...)
    default:
      let other = lines.randomElement(using: &random) ?? []
      line =
        Array(line[..<position]) + other.suffix(Int.random(in: 0...other.count, using: &random))
    }
  }
}
