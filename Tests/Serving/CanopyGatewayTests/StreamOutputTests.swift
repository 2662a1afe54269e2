import NIOCore
import Testing

@testable import CanopyGateway

/// The events of a stream whose client does not read.
struct StreamOutputTests {
  @Test func `small events share buffers, and keep their order and their bytes`() {
    var output = StreamOutput()
    var expected: [UInt8] = []
    for number in 0..<10_000 {
      let line = "data: \(number)\n"
      expected += Array(line.utf8)
      output.append(.bytes(ByteBuffer(string: line), areEvents: number % 1_000 != 0))
    }
    #expect(output.bytes.all == expected.count)
    #expect(output.count <= 2 * 10 + expected.count / 65_536)
    var sent: [UInt8] = []
    while let buffer = output.take() {
      sent += buffer.readableBytesView
      output.noteSent()
    }
    #expect(sent == expected)
    #expect(output.bytes == (0, 0))
  }

  @Test func `a large event is not copied`() {
    var output = StreamOutput()
    let large = ByteBuffer(repeating: 1, count: 4 * 1024)
    for _ in 0..<3 { output.append(.bytes(large, areEvents: true)) }
    #expect(output.count == 3)
    output.append(.bytes(ByteBuffer(repeating: 2, count: 4 * 1024 - 1), areEvents: true))
    #expect(output.count == 3)
    #expect(large.readableBytes == 4 * 1024)
  }
}
