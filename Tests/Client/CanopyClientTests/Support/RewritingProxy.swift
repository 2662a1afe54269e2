import NIOCore
import NIOPosix
import Synchronization

/// A proxy that changes what a server sends: it replaces a text by one of the same length, sends texts of its own to the
/// clients, and holds replies back.
final class RewritingProxy: Sendable {
  /// The bytes for a client that are held back.
  private struct Held {
    var client: any Channel
    var bytes: [UInt8] = []
    /// Whether the server has closed the connection.
    var hasEnded = false
  }

  private struct State {
    var trigger: [UInt8]?
    var held: [ObjectIdentifier: Held] = [:]
    var connections = 0
    var clients: [any Channel] = []
    var replacement: (old: [UInt8], new: [UInt8])?
    var listener: (any Channel)?
  }

  private let state = Mutex(State())
  private let target: Int
  /// The clients whose replies are held back, as they came.
  let holding = Received<Int>()

  /// Creates a proxy for a server on this machine.
  init(target: Int) {
    self.target = target
  }

  /// The number of connections so far.
  var connections: Int { state.withLock { $0.connections } }

  /// Replaces a text from now on; the other has the same length.
  func replace(_ old: String, by new: String) {
    state.withLock { $0.replacement = (Array(old.utf8), Array(new.utf8)) }
  }

  /// Listens on a free port and returns its number.
  func start() async throws -> Int {
    let channel = try await ServerBootstrap(group: MultiThreadedEventLoopGroup.singleton)
      .childChannelOption(.autoRead, value: false)
      .childChannelInitializer { [self] near in connect(near) }
      .bind(host: "127.0.0.1", port: 0).get()
    state.withLock { $0.listener = channel }
    return channel.localAddress?.port ?? 0
  }

  func stop() async throws {
    try await state.withLock { $0.listener }?.close()
  }

  /// Sends a message of at most 125 bytes to the client that connected last, as a server does.
  func send(_ message: String) async throws {
    guard let client = state.withLock({ $0.clients.last }) else { return }
    let frame = [0x81, UInt8(truncatingIfNeeded: message.utf8.count)] + Array(message.utf8)
    try await client.writeAndFlush(ByteBuffer(bytes: frame))
  }

  /// Holds back the next message that contains a text, with all that follows on its connection.
  func hold(_ text: String) {
    state.withLock { $0.trigger = Array(text.utf8) }
  }

  /// Delivers the messages that were held back.
  func release() async throws {
    for client in state.withLock({ $0.held.values.map(\.client) }) {
      // On the event loop, so that no later message goes first.
      try await client.eventLoop.submit { [self] in
        let held = state.withLock { $0.held.removeValue(forKey: ObjectIdentifier(client)) }
        guard let held else { return }
        client.writeAndFlush(ByteBuffer(bytes: held.bytes), promise: nil)
        if held.hasEnded { client.close(promise: nil) }
      }.get()
    }
  }

  /// Returns whether a message for a client is held back.
  fileprivate func keeps(_ bytes: [UInt8], for client: any Channel) -> Bool {
    let isNew = state.withLock { state -> Bool? in
      let id = ObjectIdentifier(client)
      if state.held[id] != nil {
        state.held[id]?.bytes += bytes
        return false
      }
      guard let trigger = state.trigger, trigger.isEmpty || bytes.firstRange(of: trigger) != nil
      else { return nil }
      state.trigger = nil
      state.held[id] = Held(client: client, bytes: bytes)
      return true
    }
    if isNew == true { holding.add(1) }
    return isNew != nil
  }

  /// Returns whether the end of a connection is held back with its last message.
  fileprivate func keepsEnd(for client: any Channel) -> Bool {
    state.withLock { state in
      let id = ObjectIdentifier(client)
      state.held[id]?.hasEnded = true
      return state.held[id] != nil
    }
  }

  private func connect(_ near: any Channel) -> EventLoopFuture<Void> {
    state.withLock {
      $0.connections += 1
      $0.clients.append(near)
    }
    return ClientBootstrap(group: near.eventLoop).channelOption(.autoRead, value: false)
      .connect(host: "127.0.0.1", port: target)
      .flatMap { [self] far in
        near.eventLoop.makeCompletedFuture {
          try near.pipeline.syncOperations.addHandler(Passage(to: far, nil))
          try far.pipeline.syncOperations.addHandler(Passage(to: near, self))
        }.flatMap {
          far.setOption(.autoRead, value: true).and(near.setOption(.autoRead, value: true))
            .map { _ in }
        }
      }
  }

  fileprivate func rewritten(_ bytes: [UInt8]) -> [UInt8] {
    guard let (old, new) = state.withLock({ $0.replacement }) else { return bytes }
    var bytes = bytes
    while let found = bytes.firstRange(of: old) { bytes.replaceSubrange(found, with: new) }
    return bytes
  }
}

/// One direction of a connection through the proxy.
private final class Passage: ChannelInboundHandler {
  typealias InboundIn = ByteBuffer

  private let other: any Channel
  private let proxy: RewritingProxy?

  init(to other: any Channel, _ proxy: RewritingProxy?) {
    self.other = other
    self.proxy = proxy
  }

  func channelRead(context: ChannelHandlerContext, data: NIOAny) {
    let buffer = unwrapInboundIn(data)
    guard let proxy else { return other.writeAndFlush(buffer, promise: nil) }
    let bytes = proxy.rewritten(Array(buffer.readableBytesView))
    guard !proxy.keeps(bytes, for: other) else { return }
    other.writeAndFlush(ByteBuffer(bytes: bytes), promise: nil)
  }

  func channelInactive(context: ChannelHandlerContext) {
    if let proxy, proxy.keepsEnd(for: other) { return }
    other.close(promise: nil)
  }
}
