import CanopyEvents
import NIOCore
import NIOEmbedded
import Testing

/// Reading of connections that send much.
struct ReadTurnsTests {
  /// Counts the reads that reach the socket.
  private final class ReadCounter: ChannelOutboundHandler {
    typealias OutboundIn = ByteBuffer
    var count = 0

    func read(context: ChannelHandlerContext) {
      count += 1
      context.read()
    }
  }

  /// The connections of a loop, whose next turn is taken by hand.
  private final class Loop {
    let loop = EmbeddedEventLoop()
    private(set) lazy var turns = LoopTurns(loop: loop) { [unowned self] in next = $0 }
    private var next: (() -> Void)?

    /// Takes a turn. Returns whether somebody waited for it.
    func takeTurn() -> Bool {
      guard let turn = next else { return false }
      next = nil
      turn()
      return true
    }

    func connect() throws -> (EmbeddedChannel, ReadCounter) {
      let counter = ReadCounter()
      let channel = EmbeddedChannel(loop: loop)
      try channel.pipeline.syncOperations.addHandlers([counter, ReadTurns(turns)])
      try channel.connect(to: SocketAddress(ipAddress: "127.0.0.1", port: 1)).wait()
      return (channel, counter)
    }
  }

  private static func bytes(_ count: Int) -> ByteBuffer {
    ByteBuffer(repeating: 0, count: count)
  }

  @Test func `a connection that has sent much is read again in its turn, and others at once`()
    throws
  {
    let loop = Loop()
    let (large, small) = (try (0..<3).map { _ in try loop.connect() }, try loop.connect())
    for (channel, _) in large {
      try channel.writeInbound(Self.bytes(ReadTurns.bulkBytes))
      channel.read()
      channel.read()
    }
    try small.0.writeInbound(Self.bytes(ReadTurns.bulkBytes - 1))
    small.0.read()
    #expect(large.map(\.1.count) == [0, 0, 0] && small.1.count == 1)
    var counts: [[Int]] = []
    while loop.takeTurn() { counts.append(large.map(\.1.count)) }
    #expect(counts == [[1, 0, 0], [1, 1, 0], [1, 1, 1]], "one in a turn")
    // Bytes count until the next read.
    large[0].0.read()
    #expect(large[0].1.count == 2)
  }

  @Test func `the bytes of several small reads do not add up`() throws {
    let loop = Loop()
    let (channel, counter) = try loop.connect()
    for round in 1...4 {
      try channel.writeInbound(Self.bytes(ReadTurns.bulkBytes / 2))
      channel.read()
      #expect(counter.count == round)
    }
    #expect(!loop.takeTurn())
  }

  @Test func `a connection that ends while it waits is not read`() throws {
    let loop = Loop()
    let (channel, counter) = try loop.connect()
    try channel.writeInbound(Self.bytes(ReadTurns.bulkBytes))
    channel.read()
    try channel.close().wait()
    #expect(loop.takeTurn() && !loop.takeTurn())
    #expect(counter.count == 0)
  }
}
