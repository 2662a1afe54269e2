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
    let (buffers, eventBytes) = output.take()
    #expect(buffers.count == 2)
    #expect(buffers.flatMap { $0.readableBytesView } == expected)
    #expect(eventBytes == expected.count)
  }
}
