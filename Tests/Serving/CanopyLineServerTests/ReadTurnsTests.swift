import CanopyEvents
import CanopySession
import CanopyTesting
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
    let memory = MemoryBudget(bytesMax: 1024 * 1024)
    private(set) lazy var work = WorkBudget(loop: loop) { [unowned self] in
      nanoseconds += step
      return .uptimeNanoseconds(nanoseconds)
    }
    private var nanoseconds: UInt64 = 0
    private let step: UInt64

    /// - Parameter microseconds: the time that passes between two looks at the clock.
    init(microseconds: UInt64 = 0) {
      step = microseconds * 1000
    }

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
      try channel.pipeline.syncOperations.addHandlers([
        counter, ReadTurns(turns, work, memory, LineLog().logger),
      ])
      try channel.connect(to: SocketAddress(ipAddress: "127.0.0.1", port: 1)).wait()
      return (channel, counter)
    }

    /// Returns the bytes that a channel has handed on since the last call.
    func handedOn(_ channel: EmbeddedChannel) throws -> Int {
      var count = 0
      while let part = try channel.readInbound(as: ByteBuffer.self) {
        #expect(part.readableBytes <= ReadTurns.sliceBytes)
        count += part.readableBytes
      }
      return count
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

  @Test
  func
    `a connection hands on a slice of a first read, and the rest in turns of half a millisecond`()
    throws
  {
    // All connections together have two milliseconds before the loop looks for input.
    let loop = Loop(microseconds: 200)
    let channels = try (0..<8).map { _ in try loop.connect().0 }
    for channel in channels { try channel.writeInbound(Self.bytes(10 * ReadTurns.sliceBytes)) }
    let slices = try channels.map { try loop.handedOn($0) / ReadTurns.sliceBytes }
    // The clock is read once after each slice, and once more at the beginning of a turn.
    #expect(slices == [4, 4, 3, 1, 1, 1, 1, 1])
    #expect(loop.memory.used > 8 * 6 * ReadTurns.sliceBytes)
    loop.loop.run()
    var turns = 0
    while loop.takeTurn() {
      turns += 1
      let handedOn = try channels.map { try loop.handedOn($0) / ReadTurns.sliceBytes }
      #expect(handedOn.count { $0 > 0 } == 1 && handedOn.max() ?? 0 <= 4)
    }
    #expect(turns > 8 * 2)
    #expect(loop.memory.used == 0)
  }

  @Test func `the end of the input and further bytes follow the bytes that wait`() throws {
    let loop = Loop(microseconds: 1_000)
    let (channel, counter) = try loop.connect()
    let recorder = Recorder()
    try channel.pipeline.syncOperations.addHandler(recorder)
    try channel.writeInbound(Self.bytes(3 * ReadTurns.sliceBytes))
    try channel.writeInbound(Self.bytes(1))
    channel.pipeline.fireUserInboundEventTriggered(ChannelEvent.inputClosed)
    channel.read()
    #expect(recorder.parts == [2048, 2048] && counter.count == 0)
    while loop.takeTurn() {}
    #expect(recorder.parts == [2048, 2048, 2048, 1, -1] && counter.count == 1)
    try channel.writeInbound(Self.bytes(1))
    #expect(recorder.parts.last == 1)
  }

  /// Notes the sizes of the parts that come in, and -1 for the end of the input.
  private final class Recorder: ChannelInboundHandler {
    typealias InboundIn = ByteBuffer
    var parts: [Int] = []

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
      parts.append(unwrapInboundIn(data).readableBytes)
    }

    func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
      parts.append(-1)
    }
  }

  @Test func `a connection that sends much is not read while the server is short of memory`() throws
  {
    let loop = Loop()
    let (large, small) = (try loop.connect(), try loop.connect())
    var other = loop.memory.open {}
    other.report(loop.memory.bytesMax + 1)
    try large.0.writeInbound(Self.bytes(ReadBuffers.keptBytesMax + 1))
    try small.0.writeInbound(Self.bytes(ReadBuffers.keptBytesMax))
    for (channel, _) in [large, small] { channel.read() }
    #expect(loop.takeTurn())
    #expect(large.1.count == 0 && small.1.count == 1)
    loop.loop.advanceTime(by: .milliseconds(ShortageQueue.milliseconds))
    #expect(!loop.takeTurn() && large.1.count == 0)
    other.report(0)
    loop.loop.advanceTime(by: .milliseconds(ShortageQueue.milliseconds))
    #expect(loop.takeTurn() && !loop.takeTurn())
    #expect(large.1.count == 1)
  }

  @Test func `one timer waits for memory, however many connections are held back`() throws {
    let loop = Loop()
    var other = loop.memory.open {}
    other.report(loop.memory.bytesMax + 1)
    let clients = try (0..<5).map { _ in try loop.connect() }
    for (channel, _) in clients {
      try channel.writeInbound(Self.bytes(ReadTurns.bulkBytes))
      channel.read()
    }
    while loop.takeTurn() {}
    for _ in 0..<10 {
      loop.loop.advanceTime(by: .milliseconds(ShortageQueue.milliseconds))
      #expect(!loop.takeTurn(), "no turn before there is memory")
    }
    #expect(loop.turns.shortage.looks == 10)
    try clients[0].0.close().wait()
    other.report(0)
    loop.loop.advanceTime(by: .milliseconds(ShortageQueue.milliseconds))
    while loop.takeTurn() {}
    #expect(clients.map(\.1.count) == [0, 1, 1, 1, 1])
    loop.loop.advanceTime(by: .seconds(1))
    #expect(loop.turns.shortage.looks == 11, "the timer ends with the shortage")
  }

  @Test func `a large read counts no longer when the channel has read again by itself`() throws {
    let loop = Loop()
    let (channel, counter) = try loop.connect()
    channel.read()
    try channel.writeInbound(Self.bytes(ReadTurns.bulkBytes))
    // The option `autoRead` has been set: the channel reads without a call of this handler.
    try channel.writeInbound(Self.bytes(1))
    channel.read()
    #expect(counter.count == 2 && !loop.takeTurn())
  }

  @Test func `a connection that ends while it waits hands on no more`() throws {
    let loop = Loop(microseconds: 1_000)
    let (channel, _) = try loop.connect()
    try channel.writeInbound(Self.bytes(8 * ReadTurns.sliceBytes))
    #expect(loop.memory.used > 0)
    #expect(try loop.handedOn(channel) == 2 * ReadTurns.sliceBytes)
    try channel.close().wait()
    #expect(loop.memory.used == 0 && loop.takeTurn() && !loop.takeTurn())
    #expect(try loop.handedOn(channel) == 0)
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
