import CanopyTree
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
    // The first has a buffer of its own, and a long text several.
    #expect(taken.count == 2 + expected.count / LineOutput.bufferBytesMax)
    #expect(taken.bytes == expected)
    #expect(taken.eventBytes == expected.count)
  }

  @Test func `output that waits is charged with the memory of its text and of its buffers`() {
    var output = LineOutput()
    #expect(output.memoryBytes == 0)
    let reply = String(repeating: "x", count: 70_000)
    output.text.append(raw: reply)
    #expect(output.byteCount == 70_000)
    #expect(output.memoryBytes == output.text.capacity && output.memoryBytes >= 70_000)
    output.append(shared: ByteBuffer(string: reply))
    // The text has become buffers, none of which has more memory than it needs.
    let shared = 128 * 1024
    #expect((70_000..<90_000).contains(output.memoryBytes - shared))
    var bytes = 0
    while let (buffer, _) = output.take() {
      bytes += buffer.readableBytes
      let max = output.hasBuffers ? LineOutput.bufferBytesMax : shared
      #expect(buffer.storageCapacity <= max)
    }
    #expect(bytes == 140_000)
    #expect(output.memoryBytes == 0)
    // A part of a large buffer is not charged with all of it.
    var large = ByteBuffer(string: reply)
    if let part = large.readSlice(length: 100) { output.append(shared: part) }
    #expect(output.memoryBytes == 200)
    output.removeAll()
    #expect(output.memoryBytes == 0)
  }
}
