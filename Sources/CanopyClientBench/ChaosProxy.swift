import NIOCore
import NIOPosix
import Synchronization

/// A bad network between clients and a server: it cuts connections, delays what passes, and hands it on in
/// halves, by chance that a seed repeats.
final class ChaosProxy: Sendable {
  private struct State {
    var random: Seeded
    var cuts = 0
    var cutsMax: Int
  }

  private let state: Mutex<State>
  private let target: Int
  private let listener = Mutex<(any Channel)?>(nil)

  /// A proxy for a server on this machine that cuts so many times, and is a good network then.
  init(target: Int, seed: UInt64, cuts: Int) {
    self.target = target
    state = Mutex(State(random: Seeded(seed: seed), cutsMax: cuts))
  }

  /// Connections that were cut.
  var cuts: Int { state.withLock { $0.cuts } }

  /// Whether it will cut no more.
  var isCalm: Bool { state.withLock { $0.cuts >= $0.cutsMax } }

  /// Listens on a free port, and returns it.
  func start() async throws -> Int {
    let channel = try await ServerBootstrap(group: MultiThreadedEventLoopGroup.singleton)
      .childChannelOption(.autoRead, value: false)
      .childChannelInitializer { [self] near in connect(near) }
      .bind(host: "127.0.0.1", port: 0).get()
    listener.withLock { $0 = channel }
    return channel.localAddress?.port ?? 0
  }

  func stop() async throws {
    try await listener.withLock { $0.take() }?.close()
  }

  /// Joins a client's connection with one of its own to the server, on the same event loop.
  private func connect(_ near: any Channel) -> EventLoopFuture<Void> {
    ClientBootstrap(group: near.eventLoop)
      .channelOption(.tcpOption(.tcp_nodelay), value: 1)
      .channelOption(.autoRead, value: false)
      .connect(host: "127.0.0.1", port: target)
      .flatMap { [self] far in
        near.eventLoop.makeCompletedFuture {
          try near.pipeline.syncOperations.addHandler(Passage(to: far, self))
          try far.pipeline.syncOperations.addHandler(Passage(to: near, self))
        }.flatMap {
          far.setOption(.autoRead, value: true).and(near.setOption(.autoRead, value: true))
            .map { _ in }
        }
      }
  }

  fileprivate enum Fate {
    case pass
    case delay(milliseconds: Int64)
    case halve(at: Int, milliseconds: Int64)
    /// So much of it gets through.
    case cut(after: Int)
  }

  fileprivate func fate(of bytes: Int) -> Fate {
    state.withLock { state in
      guard state.cuts < state.cutsMax else { return .pass }
      if state.random.oneIn(25) {
        state.cuts += 1
        return .cut(after: Int.random(in: 0...bytes, using: &state.random))
      }
      let milliseconds = Int64.random(in: 1...8, using: &state.random)
      switch Int.random(in: 0..<10, using: &state.random) {
      case 0: return .delay(milliseconds: milliseconds)
      case 1, 2:
        return .halve(
          at: Int.random(in: 0...bytes, using: &state.random), milliseconds: milliseconds)
      default: return .pass
      }
    }
  }
}

/// One direction of a connection through the proxy. What comes while something is delayed waits behind it.
private final class Passage: ChannelInboundHandler {
  typealias InboundIn = ByteBuffer

  private let other: any Channel
  private let proxy: ChaosProxy
  private var waiting: CircularBuffer<ByteBuffer> = []
  private var isHeld = false
  private var hasEnded = false

  init(to other: any Channel, _ proxy: ChaosProxy) {
    self.other = other
    self.proxy = proxy
  }

  func channelRead(context: ChannelHandlerContext, data: NIOAny) {
    waiting.append(unwrapInboundIn(data))
    goOn(context)
  }

  private func goOn(_ context: ChannelHandlerContext) {
    while !isHeld, let buffer = waiting.popFirst() {
      let fate = proxy.fate(of: buffer.readableBytes)
      switch fate {
      case .pass: send(buffer)
      case .delay(let milliseconds): hold(context, buffer, milliseconds)
      case .halve(let count, let milliseconds):
        var rest = buffer
        if let first = rest.readSlice(length: count), first.readableBytes > 0 { send(first) }
        hold(context, rest, milliseconds)
      case .cut(let count):
        var rest = buffer
        if let first = rest.readSlice(length: count), first.readableBytes > 0 { send(first) }
        // After what was sent: closing drops what has not gone out.
        other.writeAndFlush(ByteBuffer()).whenComplete { [other] _ in other.close(promise: nil) }
        context.close(promise: nil)
        waiting.removeAll()
        hasEnded = true
        return
      }
    }
    if hasEnded, !isHeld { other.close(promise: nil) }
  }

  private func hold(_ context: ChannelHandlerContext, _ buffer: ByteBuffer, _ milliseconds: Int64) {
    isHeld = true
    let bound = NIOLoopBound((self, context), eventLoop: context.eventLoop)
    context.eventLoop.scheduleTask(in: .milliseconds(milliseconds)) {
      let (passage, context) = bound.value
      if buffer.readableBytes > 0 { passage.send(buffer) }
      passage.isHeld = false
      passage.goOn(context)
    }
  }

  private func send(_ buffer: ByteBuffer) {
    other.writeAndFlush(buffer, promise: nil)
  }

  func channelInactive(context: ChannelHandlerContext) {
    hasEnded = true
    if !isHeld { other.close(promise: nil) }
  }

  func errorCaught(context: ChannelHandlerContext, error: any Error) {
    context.close(promise: nil)
  }
}
