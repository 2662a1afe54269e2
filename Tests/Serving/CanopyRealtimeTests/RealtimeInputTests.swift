import NIOCore
import Testing

@testable import CanopyRealtime

/// The input of a connection of the realtime protocol.
@Suite struct RealtimeInputTests {
  @Test func `short frames that wait are charged with all that is kept, and stay in order`() throws
  {
    let input = RealtimeInput(bytesMax: 1_000)
    for number in 0..<10_000 { input.keep(ByteBuffer(string: "\(number % 10)")) }
    input.keep(ByteBuffer())
    // The length of a frame takes eight bytes.
    #expect(input.byteCount >= 9 * 10_000 && input.byteCount <= 2 * 9 * 10_001)
    for number in 0..<10_000 {
      #expect(input.takeBacklog() == ByteBuffer(string: "\(number % 10)"))
      if number == 6_000 { input.keep(ByteBuffer(string: "last")) }
    }
    #expect(input.hasBacklog && input.takeBacklog() == ByteBuffer())
    #expect(input.takeBacklog() == ByteBuffer(string: "last"))
    #expect(!input.hasBacklog && input.takeBacklog() == nil && input.byteCount == 0)
  }
}
