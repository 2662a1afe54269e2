import DequeModule
import NIOCore

/// One end of a connection of the simulated network.
///
/// It behaves like a socket: it hands on bytes only while the pipeline reads, in pieces of any size; the other end
/// can have a bounded number of unread bytes; and a connection that closes with unread input resets the other end.
/// Call its methods on its loop, besides `sever` and `arrive`.
///
/// `@unchecked Sendable`: the simulation has one thread.
final class SimulatedChannel: Channel, ChannelCore, NIOSynchronousChannelOptions,
  @unchecked Sendable
{
  /// Something that the other end has sent.
  enum Arrival {
    case bytes(ByteBuffer)
    /// The other end sends no more.
    case end
    /// The connection is lost.
    case reset
  }

  let name: String
  let eventLoop: any EventLoop
  private let network: Network
  private let closePromise: EventLoopPromise<Void>
  private let allowsHalfClosure: Bool
  /// The other end.
  weak var peer: SimulatedChannel?
  /// The time at which the last thing that this end has sent arrives. Later ones arrive after it.
  var lastArrival: Int64 = 0
  private(set) var isActive = false
  private(set) var isWritable = true
  /// Whether its process or its cable is gone: nothing that it sends arrives, and nothing arrives here.
  private(set) var isSevered = false
  private var hasClosed = false
  private var hasEndedOutput = false
  private var outbound: Deque<(buffer: ByteBuffer, promise: EventLoopPromise<Void>?)> = []
  private var flushed = 0
  private var bufferedBytes = 0
  /// The bytes that were sent and that the other end has not read.
  private var unreadBytes = 0
  private var inbound: Deque<Arrival> = []
  private var inputEnds = false
  private var reads = false
  private var autoRead = true
  private var pumpsLater = false
  private var built: ChannelPipeline?

  init(
    _ name: String, on loop: any EventLoop, of network: Network, from address: SocketAddress?,
    allowsHalfClosure: Bool
  ) {
    self.name = name
    eventLoop = loop
    self.network = network
    remoteAddress = address
    self.allowsHalfClosure = allowsHalfClosure
    closePromise = loop.makePromise()
  }

  // MARK: Channel

  let allocator = ByteBufferAllocator()
  let localAddress: SocketAddress? = nil
  let remoteAddress: SocketAddress?
  let parent: (any Channel)? = nil
  var closeFuture: EventLoopFuture<Void> { closePromise.futureResult }
  var _channelCore: any ChannelCore { self }
  var syncOptions: (any NIOSynchronousChannelOptions)? { self }

  var pipeline: ChannelPipeline {
    if let built { return built }
    let pipeline = ChannelPipeline(channel: self)
    built = pipeline
    return pipeline
  }

  func setOption<Option: ChannelOption>(
    _ option: Option, value: Option.Value
  ) -> EventLoopFuture<Void> {
    eventLoop.makeCompletedFuture { try setOption(option, value: value) }
  }

  func getOption<Option: ChannelOption>(_ option: Option) -> EventLoopFuture<Option.Value> {
    eventLoop.makeCompletedFuture { try getOption(option) }
  }

  func setOption<Option: ChannelOption>(_ option: Option, value: Option.Value) throws {
    guard option is ChannelOptions.Types.AutoReadOption, let value = value as? Bool else { return }
    let wasSet = autoRead
    autoRead = value
    if value, !wasSet, isActive { pipeline.read() }
    if !value { reads = false }
  }

  func getOption<Option: ChannelOption>(_ option: Option) throws -> Option.Value {
    let value: Any = option is ChannelOptions.Types.AutoReadOption ? autoRead : bufferedBytes
    guard let value = value as? Option.Value else { throw ChannelError.operationUnsupported }
    return value
  }

  /// The state for a report.
  var state: String {
    "\(inbound.count) to read, reads: \(reads), input ends: \(inputEnds), \(outbound.count) to send, "
      + "\(unreadBytes) unread, the other end is \(peer.map { "\($0.isActive)" } ?? "gone")"
  }

  // MARK: The beginning and the end

  /// Makes the channel active.
  func activate() {
    isActive = true
    pipeline.fireChannelRegistered()
    pipeline.fireChannelActive()
    if isActive, autoRead { pipeline.read() }
  }

  /// Cuts this end off: nothing that it sends arrives any more, and nothing arrives here.
  func sever() {
    isSevered = true
    inbound = []
  }

  func close0(error: any Error, mode: CloseMode, promise: EventLoopPromise<Void>?) {
    guard !hasClosed else {
      promise?.fail(ChannelError.alreadyClosed)
      return
    }
    switch mode {
    case .input:
      promise?.fail(ChannelError.operationUnsupported)
    case .output:
      endOutput()
      promise?.succeed()
    case .all:
      let hasUnread = inbound.contains { if case .bytes = $0 { true } else { false } }
      if hasUnread { network.send(.reset, from: self) } else { endOutput() }
      end(error)
      promise?.succeed()
    }
  }

  private func endOutput() {
    guard !hasEndedOutput else { return }
    hasEndedOutput = true
    network.send(.end, from: self)
  }

  private func end(_ error: any Error) {
    guard !hasClosed else { return }
    hasClosed = true
    let wasActive = isActive
    isActive = false
    inbound = []
    let unsent = outbound
    outbound = []
    for (_, promise) in unsent { promise?.fail(error) }
    if wasActive { pipeline.fireChannelInactive() }
    pipeline.fireChannelUnregistered()
    eventLoop.execute { [self] in
      removeHandlers(pipeline: pipeline)
      closePromise.succeed()
    }
  }

  // MARK: Output

  private static let highMark = 32 * 1024

  func write0(_ data: NIOAny, promise: EventLoopPromise<Void>?) {
    guard !hasClosed, !hasEndedOutput else {
      promise?.fail(ChannelError.ioOnClosedChannel)
      return
    }
    let buffer = unwrapData(data, as: ByteBuffer.self)
    outbound.append((buffer, promise))
    bufferedBytes += buffer.readableBytes
    if isWritable, bufferedBytes > Self.highMark {
      isWritable = false
      pipeline.fireChannelWritabilityChanged()
    }
  }

  func flush0() {
    flushed = outbound.count
    transmit()
  }

  /// Sends flushed bytes while the other end takes them.
  private func transmit() {
    while flushed > 0, unreadBytes < network.windowBytes, let next = outbound.popFirst() {
      flushed -= 1
      let bytes = next.buffer.readableBytes
      bufferedBytes -= bytes
      unreadBytes += bytes
      if bytes > 0 { network.send(.bytes(next.buffer), from: self) }
      next.promise?.succeed()
    }
    if !isWritable, bufferedBytes <= Self.highMark / 2 {
      isWritable = true
      pipeline.fireChannelWritabilityChanged()
    }
  }

  /// Notes that the other end has read bytes.
  fileprivate func noteRead(_ bytes: Int) {
    eventLoop.execute { [self] in
      unreadBytes -= bytes
      if !hasClosed { transmit() }
    }
  }

  // MARK: Input

  /// Takes something that the other end has sent, at the time at which it arrives.
  func arrive(_ arrival: Arrival) {
    guard !isSevered else { return }
    eventLoop.execute { [self] in
      guard !isSevered else { return }
      // A socket that is closed answers everything that comes with a reset.
      if hasClosed, case .bytes = arrival { return network.send(.reset, from: self) }
      guard !hasClosed else { return }
      if case .end = arrival { inputEnds = true }
      // A reset drops the bytes that were not read.
      if case .reset = arrival { inbound = [] }
      inbound.append(arrival)
      pump()
    }
  }

  func read0() {
    reads = true
    if !inbound.isEmpty { pumpLater() }
  }

  private func pumpLater() {
    guard !pumpsLater else { return }
    pumpsLater = true
    eventLoop.execute { [self] in
      pumpsLater = false
      pump()
    }
  }

  /// Hands on one piece of input.
  private func pump() {
    guard isActive, let next = inbound.first else { return }
    switch next {
    case .reset:
      inbound = []
      pipeline.fireErrorCaught(IOError(errnoCode: 104, reason: "the connection was reset"))
      end(ChannelError.ioOnClosedChannel)
    case .end:
      inbound.removeFirst()
      guard allowsHalfClosure else {
        pipeline.close(promise: nil)
        return
      }
      pipeline.fireUserInboundEventTriggered(ChannelEvent.inputClosed)
    case .bytes(var buffer):
      // At the end of input a socket delivers everything, even if the pipeline does not read.
      guard reads || inputEnds else { return }
      reads = false
      inbound.removeFirst()
      var piece = buffer
      if network.splits(), buffer.readableBytes > 1,
        let part = buffer.readSlice(length: 1 + network.random(below: buffer.readableBytes - 1))
      {
        piece = part
        inbound.prepend(.bytes(buffer))
      }
      peer?.noteRead(piece.readableBytes)
      pipeline.fireChannelRead(piece)
      pipeline.fireChannelReadComplete()
      guard isActive else { return }
      if autoRead { pipeline.read() }
      if !inbound.isEmpty { pumpLater() }
    }
  }

  // MARK: The rest of ChannelCore

  func localAddress0() throws -> SocketAddress { throw ChannelError.operationUnsupported }
  func remoteAddress0() throws -> SocketAddress { throw ChannelError.operationUnsupported }
  func register0(promise: EventLoopPromise<Void>?) { promise?.succeed() }
  func registerAlreadyConfigured0(promise: EventLoopPromise<Void>?) { promise?.succeed() }
  func bind0(to: SocketAddress, promise: EventLoopPromise<Void>?) {
    promise?.fail(ChannelError.operationUnsupported)
  }
  func connect0(to: SocketAddress, promise: EventLoopPromise<Void>?) {
    promise?.fail(ChannelError.operationUnsupported)
  }
  func triggerUserOutboundEvent0(_ event: Any, promise: EventLoopPromise<Void>?) {
    promise?.fail(ChannelError.operationUnsupported)
  }
  func channelRead0(_ data: NIOAny) {}
  func errorCaught0(error: any Error) {}
}
