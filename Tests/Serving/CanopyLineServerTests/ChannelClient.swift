import CanopyTesting
import CanopyTree
import Dispatch
import NIOCore
import NIOEmbedded
import NIOExtras
import Synchronization

@testable import CanopyEvents
@testable import CanopyLineServer
@testable import CanopySession

/// A replacement for a socket in front of a connection's handler. It delivers bytes only while the handler
/// reads. It holds a bounded number of bytes that the client has not read, and is not writable beyond that.
///
/// Use it on the channel's loop only.
private final class StandInSocket: ChannelOutboundHandler {
  typealias OutboundIn = ByteBuffer
  typealias OutboundOut = ByteBuffer

  private static let readsPerCompletion = 4

  private let mailbox: LineMailbox
  private let heldBytesMax: Int
  private var context: ChannelHandlerContext?
  private var inbound: [(ByteBuffer, EventLoopPromise<Void>)] = []
  private var outbound: [(ByteBuffer, EventLoopPromise<Void>?)] = []
  private var flushed = 0
  private var clientReads = true
  private var inputEnds = false
  /// The handler behind this socket.
  weak var handler: LineHandler?

  /// The most bytes in one write.
  private(set) var writeBytesPeak = 0
  /// The most bytes that the client had not read.
  private(set) var heldBytesPeak = 0
  /// The most buffers that the client had not read.
  private(set) var buffersPeak = 0
  /// The number of flushes with output; on a socket, the number of system calls.
  private(set) var sendings = 0

  init(_ mailbox: LineMailbox, heldBytesMax: Int) {
    self.mailbox = mailbox
    self.heldBytesMax = heldBytesMax
  }

  func handlerAdded(context: ChannelHandlerContext) {
    self.context = context
  }

  func handlerRemoved(context: ChannelHandlerContext) {
    self.context = nil
    for (_, promise) in inbound { promise.fail(ChannelError.ioOnClosedChannel) }
    inbound = []
  }

  // MARK: From the handler

  func write(context: ChannelHandlerContext, data: NIOAny, promise: EventLoopPromise<Void>?) {
    let buffer = unwrapOutboundIn(data)
    writeBytesPeak = max(writeBytesPeak, buffer.readableBytes)
    outbound.append((buffer, promise))
    buffersPeak = max(buffersPeak, outbound.count)
  }

  func flush(context: ChannelHandlerContext) {
    flushed = outbound.count
    if flushed > 0 { sendings += 1 }
    transmit(context)
    // The handler may read again when it has returned.
    let bound = NIOLoopBound((self, context), eventLoop: context.eventLoop)
    context.eventLoop.execute {
      let (socket, context) = bound.value
      socket.pump(context)
    }
  }

  func close(context: ChannelHandlerContext, mode: CloseMode, promise: EventLoopPromise<Void>?) {
    mailbox.close()
    guard mode == .all else {
      // A client that reads the end of the output ends its own side.
      promise?.succeed()
      let bound = NIOLoopBound(self, eventLoop: context.eventLoop)
      context.eventLoop.execute { bound.value.endInput() }
      return
    }
    for (_, promise) in outbound { promise?.fail(ChannelError.ioOnClosedChannel) }
    outbound = []
    flushed = 0
    context.close(mode: mode, promise: promise)
  }

  private func transmit(_ context: ChannelHandlerContext) {
    while clientReads, flushed > 0 {
      let (buffer, promise) = outbound.removeFirst()
      flushed -= 1
      mailbox.receive(Array(buffer: buffer))
      promise?.succeed()
    }
    let held = outbound.reduce(0) { $0 + $1.0.readableBytes }
    heldBytesPeak = max(heldBytesPeak, held)
    let isWritable = held <= heldBytesMax
    guard let channel = context.channel as? NIOAsyncTestingChannel,
      channel.isWritable != isWritable
    else { return }
    channel.isWritable = isWritable
    channel.pipeline.fireChannelWritabilityChanged()
  }

  // MARK: From the client

  func send(_ bytes: [UInt8], _ promise: EventLoopPromise<Void>) {
    guard let context, context.channel.isActive else {
      return promise.fail(ChannelError.ioOnClosedChannel)
    }
    var rest = ByteBuffer(bytes: bytes)
    while let piece = rest.readSlice(length: min(16_384, rest.readableBytes)) {
      let isLast = rest.readableBytes == 0
      inbound.append((piece, isLast ? promise : context.eventLoop.makePromise()))
      if isLast { break }
    }
    pump(context)
  }

  func endInput() {
    inputEnds = true
    context.map(pump)
  }

  func setReading(_ isReading: Bool) {
    clientReads = isReading
    guard let context else { return }
    transmit(context)
    pump(context)
  }

  private func pump(_ context: ChannelHandlerContext) {
    // At the end of input a real socket delivers everything, even if the handler does not read.
    while !inbound.isEmpty, inputEnds || wantsRead(context) {
      // A socket may deliver several reads before it completes them, even if the handler reads no more.
      let pieces = inbound.prefix(StandInSocket.readsPerCompletion)
      inbound.removeFirst(pieces.count)
      for (buffer, _) in pieces { context.fireChannelRead(NIOAny(buffer)) }
      context.fireChannelReadComplete()
      for (_, promise) in pieces { promise.succeed() }
    }
    if !inbound.isEmpty, clientReads || (handler?.input.bytesBeside ?? 0) > 0 {
      // The handler reads on when a long line is decoded, or when it has sent withheld events. A real channel notices that
      // by itself.
      let bound = NIOLoopBound((self, context), eventLoop: context.eventLoop)
      let loop = context.eventLoop
      DispatchQueue.global().async {
        loop.execute {
          let (socket, context) = bound.value
          socket.pump(context)
        }
      }
    }
    if inputEnds, inbound.isEmpty, context.channel.isActive {
      inputEnds = false
      context.fireUserInboundEventTriggered(ChannelEvent.inputClosed)
    }
  }

  private func wantsRead(_ context: ChannelHandlerContext) -> Bool {
    guard let channel = context.channel as? NIOAsyncTestingChannel, channel.isActive else {
      return false
    }
    let last = channel.options.last { $0.option is ChannelOptions.Types.AutoReadOption }
    return (last?.value as? Bool) ?? true
  }
}

/// A client whose handler runs in the same process.
final class ChannelClient: LineClient {
  let mailbox = LineMailbox()
  let channel: NIOAsyncTestingChannel
  private let socket: NIOLoopBound<StandInSocket>

  init(
    _ operations: Operations, _ contexts: LoopLocals<NIOLoopBoundBox<LoopContext>>,
    heldBytesMax: Int
  ) async throws {
    let mailbox = mailbox
    let loop = NIOAsyncTestingEventLoop()
    channel = NIOAsyncTestingChannel(loop: loop)
    let channel = channel
    socket = try await loop.executeInContext {
      let socket = StandInSocket(mailbox, heldBytesMax: heldBytesMax)
      let handler = LineHandler(shared: contexts.value(of: loop).value)
      socket.handler = handler
      try channel.pipeline.syncOperations.addHandlers([socket, handler])
      return NIOLoopBound(socket, eventLoop: loop)
    }
    channel.closeFuture.whenComplete { _ in mailbox.close() }
    // Not of this machine, which is exempt from limits.
    let address = try SocketAddress(ipAddress: "192.0.2.1", port: 1)
    channel.remoteAddress = address
    try await channel.connect(to: address).get()
  }

  private func onLoop(_ body: @escaping @Sendable (StandInSocket) -> Void) async throws {
    let done = channel.eventLoop.makePromise(of: Void.self)
    channel.eventLoop.execute { [socket] in
      body(socket.value)
      done.succeed()
    }
    try await done.futureResult.get()
  }

  func send(_ bytes: [UInt8]) async throws {
    guard !bytes.isEmpty else { return }
    let done = channel.eventLoop.makePromise(of: Void.self)
    channel.eventLoop.execute { [socket] in socket.value.send(bytes, done) }
    try await done.futureResult.get()
  }

  func shutDownSending() async throws {
    try await onLoop { $0.endInput() }
  }

  /// The number of times that the server has sent output.
  func sendings() async throws -> Int {
    try await channel.eventLoop.submit { [socket] in socket.value.sendings }.get()
  }

  /// The most bytes in one write of the server, and the most that the client had not read.
  func peaks() async throws -> (write: Int, held: Int) {
    try await channel.eventLoop.submit { [socket] in
      (socket.value.writeBytesPeak, socket.value.heldBytesPeak)
    }.get()
  }

  /// The most buffers of the channel that the client had not read.
  func buffersPeak() async throws -> Int {
    try await channel.eventLoop.submit { [socket] in socket.value.buffersPeak }.get()
  }

  func pauseReading() async throws {
    try await onLoop { $0.setReading(false) }
  }

  func resumeReading() async throws {
    try await onLoop { $0.setReading(true) }
  }

  func disconnect() async {
    try? await channel.close().get()
  }

  /// Sends the event that a listener sends to its connections when it shuts down.
  func quiesce() {
    channel.eventLoop.execute { [channel] in
      channel.pipeline.fireUserInboundEventTriggered(ChannelShouldQuiesceEvent())
    }
  }
}

/// Runs the body of a test with connections that have no socket.
func withChannels(
  _ parts: LineParts, _ settings: TestSettings, _ body: (TestServer) async throws -> Void
) async throws {
  let clients = ChannelList()
  let limits = settings.limits
  // The clock does not advance: on a busy machine turns would otherwise end at any request.
  let contexts = LineServer.contexts(parts.operations, now: { .uptimeNanoseconds(0) })
  let server = TestServer(.inProcess, parts, settings, port: 0) {
    guard await !clients.isShutDown else { throw ChannelError.connectTimeout(.zero) }
    let client = try await ChannelClient(
      parts.operations, contexts,
      heldBytesMax: settings.receiveBytes ?? limits.unreadReplyBytesMax)
    await clients.add(client)
    return client
  } shutDown: {
    await clients.shutDown(after: settings.shutdownSeconds)
  }
  let result: Result<Void, any Error>
  do { result = .success(try await body(server)) } catch { result = .failure(error) }
  parts.journal.gate.open()
  parts.hash.release()
  await clients.disconnect()
  try result.get()
}

private actor ChannelList {
  private var clients: [ChannelClient] = []
  private(set) var isShutDown = false

  func add(_ client: ChannelClient) {
    clients.append(client)
  }

  func shutDown(after seconds: Int64) async {
    isShutDown = true
    for client in clients { client.quiesce() }
    for client in clients { try? await client.channel.closeFuture.get() }
  }

  func disconnect() async {
    for client in clients { await client.disconnect() }
    clients = []
  }
}
