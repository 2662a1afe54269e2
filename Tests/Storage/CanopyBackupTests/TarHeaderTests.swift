import Testing

@testable import CanopyBackup

/// The headers of the archive.
@Suite(.timeLimit(.minutes(20))) struct TarHeaderTests {
  @Test(arguments: [0, 1, 511, 512, 1 << 33 - 1, 1 << 33, 1 << 40])
  func `a header is read as it was written, at the bound of octal sizes and beyond`(size: Int) {
    let header = TarHeader(name: "namespaces/a/canopy.sqlite", size: size, seconds: 1_800_000_000)
    #expect(TarHeader(header.encoded) == header)
  }

  @Test func `each altered byte of a header is found`() {
    let block = TarHeader(name: "canopy.sqlite", size: 8_192, seconds: 5).encoded
    for index in block.indices {
      for bit in 0..<8 {
        var altered = block
        altered[index] ^= 1 << UInt8(bit)
        #expect(TarHeader(altered) == nil, "byte \(index), bit \(bit)")
      }
    }
  }

  @Test func `a name of the most bytes is kept`() {
    let name = String(repeating: "a", count: TarHeader.nameBytesMax)
    #expect(TarHeader(TarHeader(name: name, size: 0, seconds: 0).encoded)?.name == name)
  }
}
