import CanopyRows
import CanopyTesting
import Testing

@testable import CanopySQLite

struct ChecksumTests {
  private func xxh64(_ bytes: [UInt8], _ seed: UInt64 = 0) -> UInt64 {
    bytes.withUnsafeBytes { Checksum.xxh64($0, seed: seed) }
  }

  @Test func `the checksum of bytes is the XXH64 of the specification`() {
    // The specification's own test, with its generator, lengths and seeds.
    var generator: UInt64 = 2_654_435_761
    let bytes = (0..<222).map { _ -> UInt8 in
      defer { generator = generator &* 11_400_714_785_074_694_797 }
      return UInt8(truncatingIfNeeded: generator >> 56)
    }
    let seed: UInt64 = 2_654_435_761
    #expect(xxh64([]) == 0xEF46_DB37_51D8_E999)
    #expect(xxh64([], seed) == 0xAC75_FDA2_929B_17EF)
    #expect(xxh64(Array(bytes[..<1])) == 0xE934_A84A_DB05_2768)
    #expect(xxh64(Array(bytes[..<14])) == 0x8282_DCC4_994E_35C8)
    #expect(xxh64(bytes) == 0xB641_AE8C_B691_C174)
    #expect(xxh64(Array("abc".utf8)) == 0x44BC_2CF5_AD77_0999)
  }

  @Test func `each bit changes the checksum, at any length`() {
    var random = SeededGenerator(printingSeedFor: "ChecksumTests")
    for count in Array(0...70) + [127, 128, 1_000] {
      let bytes = random.bytes(count)
      let checksum = xxh64(bytes)
      for _ in 0..<min(count, 40) {
        var other = bytes
        other[Int.random(in: 0..<count, using: &random)] ^=
          1 << Int.random(in: 0..<8, using: &random)
        #expect(xxh64(other) != checksum)
      }
      #expect(xxh64(bytes + [0]) != checksum)
    }
  }

  @Test func `the checksum depends on the order and the lengths of the parts`() {
    func checksum(_ parts: [String], _ numbers: [Int64] = []) -> Checksum {
      var checksum = Checksum()
      for part in parts { checksum.add(part) }
      for number in numbers { checksum.add(number) }
      return checksum
    }
    let all = [
      checksum(["ab", "c"]), checksum(["a", "bc"]), checksum(["abc"]), checksum(["c", "ab"]),
      checksum(["", "abc"]), checksum([], [1, 2]), checksum([], [2, 1]), checksum([], [3]),
      checksum([], [0]), checksum([]),
    ]
    #expect(Set(all.map(\.value)).count == all.count)
  }
}
