import struct CanopyTree.SplitMix64
import NIOCore
import NIOPosix
import Synchronization

/// A proxy that simulates a bad network: cuts connections, and delays and splits data, at random
/// from a seed.
final class ChaosProxy: Sendable {
  private struct State {
    var random: SplitMix64
    var cuts = 0
    var cutsMax: Int
  }

  private let state: Mutex<State>
  private let target: Int
  private let listener = Mutex<(any Channel)?>(nil)

  /// Creates a proxy for a server on this machine that makes a number of cuts, and passes
  /// everything afterwards.
  init(target: Int, seed: UInt64, cuts: Int) {
    self.target = target
    state = Mutex(State(random: SplitMix64(seed: seed), cutsMax: cuts))
  }

  /// The number of cuts made.
  var cuts: Int { state.withLock { $0.cuts } }

  /// Whether all cuts are made.
  var isCalm: Bool { state.withLock { $0.cuts >= $0.cutsMax } }

  /// Listens on a free port and returns its number.
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

  /// Connects a client's connection to the server, on the same event loop.
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
    /// Passes this many bytes, then cuts.
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

/// One direction of a connection through the proxy. Data waits behind delayed data.
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
        // Flush first: closing drops unsent data.
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
