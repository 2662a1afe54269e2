import NIOCore
import Testing

@testable import CanopyEvents

/// The output of a connection that waits.
struct LineOutputTests {
  @Test func `small events that wait share a buffer, and keep their order`() {
    var output = LineOutput()
    var expected: [UInt8] = []
    for number in 0..<10_000 {
      let line = ">\(number)\n"
      expected += Array(line.utf8)
      output.append(events: ByteBuffer(string: line))
    }
    #expect(output.byteCount == expected.count)
    var taken: (count: Int, bytes: [UInt8], eventBytes: Int) = (0, [], 0)
    while let (buffer, eventBytes) = output.take() {
      taken.count += 1
      taken.bytes += buffer.readableBytesView
      taken.eventBytes += eventBytes
    }
    #expect(taken.count == 2)
    #expect(taken.bytes == expected)
    #expect(taken.eventBytes == expected.count)
  }
}
