import CanopyEvents
import CanopySession
import CanopyTesting
import NIOCore
import NIOEmbedded
import NIOWebSocket
import Testing

@testable import CanopyRealtime

/// The memory of frames that are not complete.
struct UnfinishedFramesTests {
  /// Waits for the client before the connection closes, as TLS does, unless the connection is cut off.
  private final class SlowClose: ChannelOutboundHandler {
    typealias OutboundIn = ByteBuffer
    private var isCutOff = false

    func triggerUserOutboundEvent(
      context: ChannelHandlerContext, event: Any, promise: EventLoopPromise<Void>?
    ) {
      if event is CutOff { isCutOff = true }
      promise?.succeed()
    }

    func close(context: ChannelHandlerContext, mode: CloseMode, promise: EventLoopPromise<Void>?) {
      if isCutOff { context.close(mode: mode, promise: promise) }
    }
  }

  private static let frameBytesMax = 4_000_000

  private static func connect(
    _ memory: MemoryBudget, _ log: LineLog = LineLog(), hasSlowClose: Bool = false
  ) throws -> EmbeddedChannel {
    let frames = UnfinishedFrames(memory, log.logger, frameBytesMax: frameBytesMax)
    let decoder = ByteToMessageHandler(WebSocketFrameDecoder(maxFrameSize: frameBytesMax))
    let channel = EmbeddedChannel()
    let pipeline = channel.pipeline.syncOperations
    if hasSlowClose { try pipeline.addHandler(SlowClose()) }
    try pipeline.addHandlers([frames, decoder])
    try channel.connect(to: SocketAddress(ipAddress: "127.0.0.1", port: 1)).wait()
    return channel
  }

  /// Returns the bytes of a masked frame.
  private static func frame(_ count: Int) -> [UInt8] {
    var bytes: [UInt8] = [0x81]
    switch count {
    case ..<126: bytes.append(0x80 | UInt8(count))
    case ..<65_536: bytes += [0x80 | 126, UInt8(count >> 8), UInt8(count & 0xFF)]
    default:
      bytes.append(0x80 | 127)
      for shift in stride(from: 56, through: 0, by: -8) {
        bytes.append(UInt8(truncatingIfNeeded: count >> shift))
      }
    }
    return bytes + [1, 2, 3, 4] + [UInt8](repeating: 7, count: count)
  }

  @Test func `the bytes of unfinished frames are charged, and those of whole ones are not`() throws
  {
    var random = SeededGenerator(printingSeedFor: #function)
    for _ in 0..<20 {
      let memory = MemoryBudget(bytesMax: 100_000_000)
      let channel = try Self.connect(memory)
      var (stream, ends): ([UInt8], [Int]) = ([], [0])
      for _ in 0..<8 {
        let count =
          [0, 125, 126, 4_000, 65_535, 65_536, 200_000].randomElement(using: &random) ?? 0
        stream += Self.frame(count)
        ends.append(stream.count)
      }
      var sent = 0
      while sent < stream.count {
        let end = min(stream.count, sent + Int.random(in: 1...65_536, using: &random))
        try channel.writeInbound(ByteBuffer(bytes: stream[sent..<end]))
        sent = end
        let unfinished = sent - (ends.last { $0 <= sent } ?? 0)
        // A change of less than the bound is reported with the next one. The buffer of the bytes grows by doubling.
        let mostBytes = 2 * unfinished
        #expect(memory.used > unfinished - MemoryBudget.reportBytes)
        #expect(memory.used < mostBytes + MemoryBudget.reportBytes)
      }
      try channel.writeInbound(ByteBuffer(bytes: Self.frame(60_000).prefix(50_000)))
      #expect(memory.used > 45_000)
      try channel.close().wait()
      #expect(memory.used == 0)
    }
  }

  @Test func `the first bytes of a frame do not keep the buffer of the read`() throws {
    let memory = MemoryBudget(bytesMax: 100_000_000)
    let channel = try Self.connect(memory)
    try channel.writeInbound(ByteBuffer(bytes: Self.frame(60_000) + Self.frame(1_000).prefix(1)))
    #expect(memory.used == 0)
    try channel.writeInbound(ByteBuffer(bytes: Self.frame(1_000).dropFirst()))
    #expect(memory.used == 0)
    try channel.close().wait()
  }

  @Test func `frames come out whole and in order, however their bytes come in`() throws {
    var random = SeededGenerator(printingSeedFor: #function)
    for _ in 0..<40 {
      let channel = try Self.connect(MemoryBudget(bytesMax: 100_000_000))
      let counts = (0..<30).map { _ in
        [0, 1, 125, 126, 127, 300, 65_535, 65_536].randomElement(using: &random) ?? 0
      }
      var rest = counts.flatMap { Self.frame($0) }[...]
      while !rest.isEmpty {
        let part = rest.prefix([1, 2, 5, 13, 200, 70_000].randomElement(using: &random) ?? 1)
        try channel.writeInbound(ByteBuffer(bytes: part))
        rest = rest.dropFirst(part.count)
      }
      var received: [Int] = []
      while let frame = try channel.readInbound(as: WebSocketFrame.self) {
        received.append(frame.length)
      }
      #expect(received == counts)
      try channel.close().wait()
    }
  }

  @Test(arguments: [1, 3, 64])
  func `a frame that the decoder refuses reaches it with its head`(partBytes: Int) throws {
    let heads: [[UInt8]] = [
      // One byte more than the bound, the most bytes, and control frames that are long or not final.
      Array(Self.frame(Self.frameBytesMax + 1).prefix(14)),
      [0x81, 0xFF] + [UInt8](repeating: 0xFF, count: 12), [0x89, 0xFE, 0, 126, 0, 0, 0, 0],
      [0x09, 0x81, 0, 0, 0, 0, 0],
    ]
    for head in heads {
      let memory = MemoryBudget(bytesMax: 100_000_000)
      let channel = try Self.connect(memory)
      try channel.writeInbound(ByteBuffer(bytes: Self.frame(3)))
      #expect(throws: NIOWebSocketError.self) {
        var rest = head[...]
        while !rest.isEmpty {
          try channel.writeInbound(ByteBuffer(bytes: rest.prefix(partBytes)))
          rest = rest.dropFirst(partBytes)
        }
      }
      #expect(memory.used == 0)
      try channel.close().wait()
    }
  }

  @Test func `bytes for which there is no room are not kept`() throws {
    let memory = MemoryBudget(bytesMax: 1024 * 1024)
    var other = memory.open {}
    other.report(memory.bytesMax - 100_000)
    let channel = try Self.connect(memory)
    let part = ByteBuffer(bytes: Self.frame(200_000).prefix(65_536))
    try channel.writeInbound(part)
    #expect(memory.used <= memory.bytesMax)
    // The buffer of the next bytes would have 128 KiB. The other connection is larger, so it would end.
    try channel.writeInbound(part)
    #expect(channel.isActive)
    other.report(0)
    let larger = try Self.connect(memory)
    try larger.writeInbound(ByteBuffer(bytes: Self.frame(4_000_000).prefix(500_000)))
    #expect(memory.used <= memory.bytesMax && larger.isActive)
    // The next buffer has 1 MiB, and no other connection has more.
    try larger.writeInbound(part)
    #expect(!larger.isActive && channel.isActive && memory.used <= memory.bytesMax)
    try channel.close().wait()
    #expect(memory.used == 0)
  }

  @Test(arguments: [false, true])
  func `a connection with an unfinished frame is cut off if the server is short of memory`(
    hasSlowClose: Bool
  ) throws {
    let memory = MemoryBudget(bytesMax: 1024 * 1024)
    let log = LineLog()
    let channel = try Self.connect(memory, log, hasSlowClose: hasSlowClose)
    let part = ByteBuffer(bytes: Self.frame(4_000_000).prefix(memory.bytesMax))
    try channel.writeInbound(part)
    channel.embeddedEventLoop.run()
    #expect(channel.isActive)
    try channel.writeInbound(ByteBuffer(repeating: 7, count: MemoryBudget.reportBytes))
    channel.embeddedEventLoop.run()
    #expect(!channel.isActive && memory.used == 0)
    #expect(log.lines.filter { $0.contains("cut off because the server is short") }.count == 1)
  }

  @Test func `the log has a bounded number of lines about connections that are cut off`() throws {
    let memory = MemoryBudget(bytesMax: 1024 * 1024, lines: EndedConnectionLines { 0 })
    let log = LineLog()
    let part = Self.frame(4_000_000).prefix(memory.bytesMax)
    for _ in 0..<70 {
      let channel = try Self.connect(memory, log)
      try channel.writeInbound(ByteBuffer(bytes: part))
      try channel.writeInbound(ByteBuffer(repeating: 7, count: MemoryBudget.reportBytes))
      channel.embeddedEventLoop.run()
      #expect(!channel.isActive && memory.used == 0)
    }
    #expect(log.lines.count { $0.contains("cut off because the server is short") } == 60)
  }
}
