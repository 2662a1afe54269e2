import CanopyRealtimeWire
import CanopyTesting
import CanopyTree
import NIOCore
import NIOEmbedded
import NIOPosix
import NIOWebSocket
import Testing

@testable import CanopyRealtime

/// A client of a WebSocket: in the process, or over a socket.
final class RealtimeClient: Sendable {
  let reader: FrameReader
  private let sendBytes: @Sendable ([UInt8]) async throws -> Void
  private let setReading: @Sendable (Bool) async throws -> Void
  private let close: @Sendable () async -> Void

  init(
    _ reader: FrameReader, send: @escaping @Sendable ([UInt8]) async throws -> Void,
    setReading: @escaping @Sendable (Bool) async throws -> Void,
    close: @escaping @Sendable () async -> Void
  ) {
    self.reader = reader
    sendBytes = send
    self.setReading = setReading
    self.close = close
  }

  // MARK: Messages

  /// Sends bytes unchanged.
  func send(bytes: [UInt8]) async throws { try await sendBytes(bytes) }

  /// Sends a message.
  func send(_ message: String) async throws { try await sendBytes(ClientFrame.message(message)) }

  /// Sends a request.
  func send(_ number: Int, _ action: String, _ body: String) async throws {
    try await send(#"{"t":"d","d":{"r":\#(number),"a":"\#(action)","b":\#(body)}}"#)
  }

  /// Returns the next message.
  func next() async throws -> String {
    guard let line = try await reader.mailbox.next() else { throw LineClientError.closed }
    return line
  }

  /// Expects a message.
  func expect(_ message: String, at location: SourceLocation = #_sourceLocation) async throws {
    let next = try await next()
    #expect(next == message, sourceLocation: location)
  }

  /// Expects the answer to a request.
  func expect(
    answer number: Int, _ status: String = "ok", _ data: String = "\"\"",
    at location: SourceLocation = #_sourceLocation
  ) async throws {
    try await expect(
      #"{"t":"d","d":{"r":\#(number),"b":{"s":"\#(status)","d":\#(data)}}}"#, at: location)
  }

  /// Expects the status of a request, whatever the data of its answer is.
  func expect(
    answer number: Int, status: String, at location: SourceLocation = #_sourceLocation
  ) async throws {
    let next = try await next()
    #expect(
      next.hasPrefix(#"{"t":"d","d":{"r":\#(number),"b":{"s":"\#(status)","#),
      "\(next)", sourceLocation: location)
  }

  /// Expects the message that a location has a value, or that several have.
  func expect(
    push path: String, _ data: String, tag: Int? = nil, isMerge: Bool = false,
    at location: SourceLocation = #_sourceLocation
  ) async throws {
    let tag = tag.map { "\"t\":\($0)," } ?? ""
    try await expect(
      #"{"t":"d","d":{"b":{\#(tag)"p":"\#(path)","d":\#(data)},"a":"\#(isMerge ? "m" : "d")"}}"#,
      at: location)
  }

  /// Sends a request and expects its answer.
  func request(
    _ number: Int, _ action: String, _ body: String, status: String = "ok",
    at location: SourceLocation = #_sourceLocation
  ) async throws {
    try await send(number, action, body)
    try await expect(answer: number, status: status, at: location)
  }

  /// Expects that the server ends the connection.
  func expectClosed(at location: SourceLocation = #_sourceLocation) async throws {
    let line = try await reader.mailbox.next()
    #expect(line == nil, sourceLocation: location)
  }

  // MARK: The transport

  func pauseReading() async throws { try await setReading(false) }

  func resumeReading() async throws { try await setReading(true) }

  /// Cuts the connection.
  func disconnect() async { await close() }
}

extension RealtimeClient {
  /// Connects to a handler in the process.
  convenience init(
    inProcess connections: RealtimeConnections, joinsFrames: Bool,
    add: @escaping @Sendable (RealtimeConnections, any Channel) throws -> Void
  ) async throws {
    let reader = FrameReader(hasHead: false, joinsFrames: joinsFrames)
    let loop = NIOAsyncTestingEventLoop()
    let channel = NIOAsyncTestingChannel(loop: loop)
    // Not of this machine, which is exempt from limits.
    channel.remoteAddress = try SocketAddress(ipAddress: "192.0.2.1", port: 1)
    channel.localAddress = try SocketAddress(ipAddress: "192.0.2.2", port: 9000)
    try await channel.connect(to: SocketAddress(ipAddress: "192.0.2.1", port: 1)).get()
    let socket = try await loop.executeInContext {
      let socket = StandInSocket(reader)
      let pipeline = channel.pipeline.syncOperations
      try pipeline.addHandler(socket)
      try pipeline.addHandler(WebSocketFrameEncoder())
      try pipeline.addHandler(
        ByteToMessageHandler(WebSocketFrameDecoder(maxFrameSize: connections.frameBytesMax)))
      try add(connections, channel)
      return NIOLoopBound(socket, eventLoop: loop)
    }
    channel.closeFuture.whenComplete { _ in reader.mailbox.close() }
    self.init(reader) { bytes in
      let done = loop.makePromise(of: Void.self)
      loop.execute { socket.value.send(bytes, done) }
      try await done.futureResult.get()
    } setReading: { isReading in
      try await loop.submit { socket.value.setReading(isReading) }.get()
    } close: {
      try? await channel.close().get()
    }
  }

  /// Connects to a port.
  convenience init(
    port: Int, path: String, joinsFrames: Bool, on group: MultiThreadedEventLoopGroup,
    fields: String = ""
  ) async throws {
    let reader = FrameReader(hasHead: true, joinsFrames: joinsFrames)
    let channel = try await ClientBootstrap(group: group)
      .channelInitializer { channel in
        channel.eventLoop.makeCompletedFuture {
          try channel.pipeline.syncOperations.addHandler(SocketReader(reader))
        }
      }
      .connect(host: "127.0.0.1", port: port).get()
    let head =
      "GET \(path) HTTP/1.1\r\nHost: localhost:\(port)\r\nUpgrade: websocket\r\n"
      + "Connection: Upgrade\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
      + "Sec-WebSocket-Version: 13\r\n\(fields)\r\n"
    try await channel.writeAndFlush(ByteBuffer(string: head)).get()
    self.init(reader) { bytes in
      try await channel.writeAndFlush(ByteBuffer(bytes: bytes)).get()
    } setReading: { isReading in
      try await channel.setOption(.autoRead, value: isReading).get()
    } close: {
      try? await channel.close().get()
    }
  }
}

/// Hands on the bytes that a socket receives.
private final class SocketReader: ChannelInboundHandler {
  typealias InboundIn = ByteBuffer

  private let reader: FrameReader

  init(_ reader: FrameReader) { self.reader = reader }

  func channelRead(context: ChannelHandlerContext, data: NIOAny) {
    reader.receive(Array(buffer: unwrapInboundIn(data)))
  }

  func channelInactive(context: ChannelHandlerContext) {
    reader.mailbox.close()
    context.fireChannelInactive()
  }

  func errorCaught(context: ChannelHandlerContext, error: any Error) {
    context.close(promise: nil)
  }
}

/// A replacement for a socket in front of a connection's handlers. It delivers bytes only while the handlers read, and
/// is not writable while the client does not read. Use it on the channel's loop only.
private final class StandInSocket: ChannelOutboundHandler {
  typealias OutboundIn = ByteBuffer
  typealias OutboundOut = ByteBuffer

  private static let heldBytesMax = 64 * 1024

  private let reader: FrameReader
  private var context: ChannelHandlerContext?
  private var inbound: [(ByteBuffer, EventLoopPromise<Void>)] = []
  private var outbound: [(ByteBuffer, EventLoopPromise<Void>?)] = []
  private var clientReads = true
  private var pumpIsDue = false

  init(_ reader: FrameReader) { self.reader = reader }

  func handlerAdded(context: ChannelHandlerContext) { self.context = context }

  func handlerRemoved(context: ChannelHandlerContext) {
    self.context = nil
    for (_, promise) in inbound { promise.fail(ChannelError.ioOnClosedChannel) }
    for (_, promise) in outbound { promise?.fail(ChannelError.ioOnClosedChannel) }
  }

  func write(context: ChannelHandlerContext, data: NIOAny, promise: EventLoopPromise<Void>?) {
    outbound.append((unwrapOutboundIn(data), promise))
  }

  func flush(context: ChannelHandlerContext) { transmit() }

  func close(context: ChannelHandlerContext, mode: CloseMode, promise: EventLoopPromise<Void>?) {
    guard mode == .all else {
      promise?.succeed()
      reader.mailbox.close()
      // A client that reads the end of the output ends its own side.
      let bound = NIOLoopBound(context, eventLoop: context.eventLoop)
      context.eventLoop.execute {
        bound.value.fireUserInboundEventTriggered(ChannelEvent.inputClosed)
      }
      return
    }
    context.close(mode: mode, promise: promise)
  }

  func setReading(_ isReading: Bool) {
    clientReads = isReading
    transmit()
  }

  private func transmit() {
    while clientReads, !outbound.isEmpty {
      let (buffer, promise) = outbound.removeFirst()
      reader.receive(Array(buffer: buffer))
      promise?.succeed()
    }
    let held = outbound.reduce(0) { $0 + $1.0.readableBytes }
    let isWritable = held <= StandInSocket.heldBytesMax
    if let channel = context?.channel as? NIOAsyncTestingChannel, channel.isWritable != isWritable {
      channel.isWritable = isWritable
      channel.pipeline.fireChannelWritabilityChanged()
    }
    pumpLater()
  }

  func send(_ bytes: [UInt8], _ promise: EventLoopPromise<Void>) {
    guard let context, context.channel.isActive else {
      return promise.fail(ChannelError.ioOnClosedChannel)
    }
    inbound.append((ByteBuffer(bytes: bytes), promise))
    pump()
  }

  private func pumpLater() {
    guard !pumpIsDue, let context else { return }
    pumpIsDue = true
    let bound = NIOLoopBound(self, eventLoop: context.eventLoop)
    context.eventLoop.execute {
      bound.value.pumpIsDue = false
      bound.value.pump()
    }
  }

  private func pump() {
    while let context, context.channel.isActive, !inbound.isEmpty, wantsRead(context) {
      let (buffer, promise) = inbound.removeFirst()
      context.fireChannelRead(NIOAny(buffer))
      context.fireChannelReadComplete()
      promise.succeed()
    }
    guard !inbound.isEmpty, let context, context.channel.isActive else { return }
    // The handlers read again after work on other threads, of which this socket knows nothing.
    let bound = NIOLoopBound(self, eventLoop: context.eventLoop)
    let loop = context.eventLoop
    Task {
      await Task.yield()
      loop.execute { bound.value.pumpLater() }
    }
  }

  private func wantsRead(_ context: ChannelHandlerContext) -> Bool {
    guard let channel = context.channel as? NIOAsyncTestingChannel else { return false }
    let last = channel.options.last { $0.option is ChannelOptions.Types.AutoReadOption }
    return (last?.value as? Bool) ?? true
  }
}
