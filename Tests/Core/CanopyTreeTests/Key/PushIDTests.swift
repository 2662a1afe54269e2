import CanopyTesting
import Testing

@testable import CanopyTree

/// Push ids ascend, whatever the clock and the random source return.
struct PushIDTests {
  private static let allZ: UInt64 = .max

  @Test func `a push id encodes its time and its random words`() {
    var generator = PushIDGenerator()
    let key = generator.next(at: 0) { 0 }
    #expect(key.text == "--------------------")
    #expect(generator.next(at: 1) { 0 }.text == "-------0------------")
    #expect(generator.next(at: 64) { PushIDTests.allZ }.text == "------0-zzzzzzzzzzzz")
    var last = PushIDGenerator()
    #expect(
      last.next(at: PushIDGenerator.timeMax) { PushIDTests.allZ }.text == "zzzzzzzzzzzzzzzzzzzz")
  }

  @Test func `a push id encodes the time like the official algorithm`() {
    // 2024-01-02 03:04:05.678 UTC, computed by hand with the published algorithm.
    let milliseconds: Int64 = 1_704_164_645_678
    let alphabet = Array("-0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ_abcdefghijklmnopqrstuvwxyz")
    var expected = ""
    var rest = milliseconds
    for _ in 0..<8 {
      expected = String(alphabet[Int(rest % 64)]) + expected
      rest /= 64
    }
    var generator = PushIDGenerator()
    #expect(generator.next(at: milliseconds) { 0x123 }.text.hasPrefix(expected))
  }

  @Test func `within one millisecond a hundred thousand keys ascend`() throws {
    try withSeed { random in
      var generator = PushIDGenerator()
      var last = generator.next(at: 1000) { random.next() }
      var lastText = last.text
      for _ in 0..<100_000 {
        let key = generator.next(at: 1000) { random.next() }
        let text = key.text
        guard last < key, lastText.utf8.lexicographicallyPrecedes(text.utf8) else {
          try #require(Bool(false), "\(lastText) then \(text)")
          return
        }
        (last, lastText) = (key, text)
      }
      #expect(last.text.utf8.count == PushID.length)
    }
  }

  @Test func `keys ascend although the clock jumps back and forth`() throws {
    try withSeed { random in
      var generator = PushIDGenerator()
      var last = generator.next(at: 0) { random.next() }
      for _ in 0..<20_000 {
        let time = Int64(random.below(1000)) - 100
        let word = random.pick([0, random.next(), PushIDTests.allZ])
        let key = generator.next(at: time) { word }
        try #require(last < key)
        last = key
      }
    }
  }

  @Test func `a random part of all z continues in the next millisecond`() {
    var generator = PushIDGenerator()
    let first = generator.next(at: 1000) { PushIDTests.allZ }
    let second = generator.next(at: 1000) { PushIDTests.allZ }
    let third = generator.next(at: 1001) { PushIDTests.allZ }
    let fourth = generator.next(at: 1002) { 0 }
    #expect(first.text.hasSuffix("zzzzzzzzzzzz"))
    #expect(second.text.hasSuffix("------------"))
    #expect(first < second && second < third && third < fourth)
    #expect(second.text.prefix(8) == third.text.prefix(8))
  }

  @Test func `the random part carries from its low digits into its high ones`() {
    var generator = PushIDGenerator()
    var words: [UInt64] = [.max, 5]
    let first = generator.next(at: 1000) { words.removeLast() }
    let second = generator.next(at: 1000) { 0 }
    #expect(first.text.hasSuffix("-4zzzzzzzzzz"))
    #expect(second.text.hasSuffix("-5----------"))
  }

  @Test func `a time out of bounds is clamped`() {
    var generator = PushIDGenerator()
    #expect(generator.next(at: -5) { 0 }.text.hasPrefix("--------"))
    #expect(generator.next(at: .max) { 0 }.text.hasPrefix("zzzzzzzz"))
  }

  @Test func `every character of the alphabet survives a round trip`() throws {
    for character in "-0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ_abcdefghijklmnopqrstuvwxyz" {
      for position in 0..<PushID.length {
        let text = String(
          (0..<PushID.length).map { $0 == position ? character : Character("k") })
        let key = try Key(text)
        guard case .push = key.form else {
          Issue.record("\(text) is not kept as a push id")
          continue
        }
        #expect(key.text == text)
      }
    }
  }
}
