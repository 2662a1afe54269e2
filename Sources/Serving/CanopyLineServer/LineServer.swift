public import CanopySession
internal import CanopyTree
internal import Foundation
public import Logging
internal import NIOCore
internal import NIOExtras
internal import NIOPosix
public import ServiceLifecycle
internal import Synchronization

/// The listener of the line protocol: accepts connections until it is asked to shut down.
///
/// Shutting down in good order: no new connections, no more bytes read; received requests are carried
/// out and answered; then each connection closes. A client that does not read its replies is cut off
/// after a while.
public final class LineServer: Service {
  /// Where to listen.
  public struct Configuration: Sendable {
    /// An address or host name of this machine.
    public var host = "127.0.0.1"
    /// A port; 0 for any that is free.
    public var port = 7070
    /// Threads that serve connections. Half of the cores: the other half is for the engine, the store,
    /// hashing, and whoever is on the other end. (On two cores with the client on them as well, one
    /// thread answers PING and tells many listeners faster than two do, which contend for the cores;
    /// long lists, which are the work of the thread itself, take longer.)
    public var threads = max(1, System.coreCount / 2)
    /// Seconds of silence after which a connection is probed; at most 32,767.
    public var heartbeatSeconds = 15
    /// Seconds after which a connection has ended whose other side gives no sign of life, or takes
    /// nothing of what it is sent; at most 32,767. It is noticed at most one heartbeat later.
    public var timeoutSeconds = 45
    /// The data folder, in which the server also listens at a ``LocalSocket``; nil for no such socket.
    public var localSocketFolder: String?
    /// Seconds that connections get to take their last replies on shutdown.
    public var shutdownSeconds: Int64 = 10

    /// The defaults.
    public init() {}
  }

  private let operations: Operations
  private let contexts: LoopLocals<NIOLoopBoundBox<LoopContext>>
  private let configuration: Configuration
  private let logger: Logger
  private let whenReady: @Sendable (_ host: String, _ port: Int) -> Void

  /// A server that is not listening yet.
  ///
  /// - Parameter whenReady: called once when connections are accepted, with the address.
  public init(
    _ operations: Operations, configuration: Configuration, logger: Logger,
    whenReady: @escaping @Sendable (_ host: String, _ port: Int) -> Void
  ) {
    self.operations = operations
    contexts = LineServer.contexts(operations)
    self.configuration = configuration
    self.logger = logger
    self.whenReady = whenReady
  }

  /// Listens until graceful shutdown or cancellation.
  ///
  /// - Throws: `ListenError` when the address cannot be had; the store's or the engine's error when
  ///   what connections left behind in the last run cannot be done.
  public func run() async throws {
    try await operations.carryOutAbandoned()
    let group = MultiThreadedEventLoopGroup(numberOfThreads: configuration.threads)
    do {
      try await serve(on: group)
    } catch {
      // What a failed attempt to listen leaves on the loops uses them once more when it is dropped.
      for loop in group.makeIterator() { try? await loop.submit {}.get() }
      try? await group.shutdownGracefully()
      throw error
    }
    try await group.shutdownGracefully()
  }

  /// Returns the things that the connections of each event loop share.
  ///
  /// - Parameter now: the clock by which the turns of connections end.
  static func contexts(
    _ operations: Operations, now: @escaping @Sendable () -> NIODeadline = { .now() }
  ) -> LoopLocals<NIOLoopBoundBox<LoopContext>> {
    LoopLocals { loop in
      .makeBoxSendingValue(LoopContext(operations, loop: loop, now: now), eventLoop: loop)
    }
  }

  private func serve(on group: MultiThreadedEventLoopGroup) async throws {
    let limits = operations.limits
    let remote = Listener(
      group: group, connectionsMax: limits.connectionsMax,
      perNetworkMax: limits.connectionsPerAddressMax)
    let channel = try await bind(remote, on: group)
    let port = channel.localAddress?.port ?? configuration.port
    let local = await listenLocally(on: group)
    whenReady(configuration.host, port)
    let silence = closeSilent(of: remote.gate, on: group.any())
    let listeners = [remote, local].compactMap { $0 }

    // Cancelled, it shuts down as well: another service may have failed.
    await withTaskCancellationOrGracefulShutdownHandler {
      try? await channel.closeFuture.get()
    } onCancelOrGracefulShutdown: {
      for listener in listeners { listener.quiescing.initiateShutdown(promise: nil) }
    }
    silence.cancel()
    let deadline = group.any().scheduleTask(in: .seconds(configuration.shutdownSeconds)) {
      for listener in listeners { listener.gate.closeAll() }
    }
    for listener in listeners {
      let done = group.any().makePromise(of: Void.self)
      listener.quiescing.initiateShutdown(promise: done)
      try? await done.futureResult.get()
    }
    deadline.cancel()
    if let folder = configuration.localSocketFolder, local != nil {
      try? await LocalSocket.remove(in: folder)
    }
  }

  private func bind(
    _ listener: Listener, on group: MultiThreadedEventLoopGroup
  ) async throws -> any Channel {
    let bootstrap = bootstrap(listener, on: group)
      .childChannelOption(.tcpOption(.tcp_nodelay), value: 1)
      // A peer that is gone without a word: the kernel asks whether it is there, so that a person
      // with a terminal need not answer, and gives up on one that acknowledges nothing.
      .childChannelOption(.socketOption(.so_keepalive), value: 1)
      .childChannelOption(.tcp(TCP_KEEPIDLE), value: configuration.heartbeatSeconds)
      .childChannelOption(.tcp(TCP_KEEPINTVL), value: configuration.heartbeatSeconds)
      .childChannelOption(.tcp(TCP_USER_TIMEOUT), value: configuration.timeoutSeconds * 1000)
    do {
      return try await bootstrap.bind(host: configuration.host, port: configuration.port).get()
    } catch {
      let reason = (error as? IOError).map { String(cString: strerror($0.errnoCode)) }
      throw ListenError(
        host: configuration.host, port: configuration.port, reason: reason ?? "\(error)")
    }
  }

  /// Listens for commands on the same machine, if the configuration names a folder. Without the
  /// socket, the server goes on, and says so in the log.
  private func listenLocally(on group: MultiThreadedEventLoopGroup) async -> Listener? {
    guard let folder = configuration.localSocketFolder else { return nil }
    let listener = Listener(
      group: group, connectionsMax: LineServer.localConnectionsMax,
      perNetworkMax: LineServer.localConnectionsMax)
    do {
      let socket = try await LocalSocket.bind(in: folder)
      _ = try await bootstrap(listener, on: group).withBoundSocket(socket).get()
      return listener
    } catch {
      logger.warning(
        "commands such as canopy rules cannot reach this server",
        metadata: ["error": "\((error as? LocalSocketError)?.sentence ?? "\(error)")"])
      return nil
    }
  }

  /// Connections of local commands at one time. They do not count for the bound on others, so that
  /// the administrator gets in when strangers hold all of those.
  private static let localConnectionsMax = 16

  /// The options that all listeners share.
  private func bootstrap(
    _ listener: Listener, on group: MultiThreadedEventLoopGroup
  ) -> ServerBootstrap {
    // Bytes beyond this mark are charged to the connection.
    let mark = min(operations.limits.unreadReplyBytesMax, 32 * 1024)
    return ServerBootstrap(group: group)
      .serverChannelOption(.backlog, value: 1024)
      .serverChannelOption(.socketOption(.so_reuseaddr), value: 1)
      .serverChannelInitializer { [logger] channel in
        channel.eventLoop.makeCompletedFuture {
          try channel.pipeline.syncOperations.addHandlers([
            AcceptPause(logger: logger),
            listener.quiescing.makeServerChannelHandler(channel: channel),
          ])
        }
      }
      .childChannelOption(.allowRemoteHalfClosure, value: true)
      .childChannelOption(
        .writeBufferWaterMark, value: .init(low: mark / 2, high: mark)
      )
      .childChannelInitializer { [operations, contexts] channel in
        channel.eventLoop.makeCompletedFuture {
          guard listener.gate.enter(channel, isShortOfMemory: operations.memory.isExhausted)
          else { return }
          try channel.pipeline.syncOperations.addHandler(
            LineHandler(operations, shared: contexts.value(of: channel.eventLoop).value))
        }
      }
  }
}

/// The connections of one listener, and the means to end them in good order.
private struct Listener: Sendable {
  let quiescing: ServerQuiescingHelper
  let gate: ConnectionGate

  init(group: MultiThreadedEventLoopGroup, connectionsMax: Int, perNetworkMax: Int) {
    quiescing = ServerQuiescingHelper(group: group)
    gate = ConnectionGate(connectionsMax: connectionsMax, perNetworkMax: perNetworkMax)
  }
}

extension LineServer {
  /// Closes connections that have given no sign of life for too long, twice a heartbeat.
  ///
  /// The kernel by itself is late where there is something to send: it then asks no more whether the
  /// other side is there, and counts the seconds anew from what it sent. So of many who hear of each
  /// other and are cut off together, each that is noticed would delay the others.
  private func closeSilent(of gate: ConnectionGate, on loop: any EventLoop) -> RepeatedTask {
    let heartbeat = Int64(configuration.heartbeatSeconds) * 1000
    let timeout = Int64(configuration.timeoutSeconds) * 1000
    let silenceMax = max(timeout, heartbeat) + heartbeat / 2
    let interval = TimeAmount.milliseconds(heartbeat / 2)
    return loop.scheduleRepeatedTask(initialDelay: interval, delay: interval) { _ in
      gate.closeSilent(milliseconds: silenceMax)
    }
  }
}

extension ChannelOption where Self == ChannelOptions.Types.SocketOption {
  /// An option of TCP by the number that the kernel has for it.
  fileprivate static func tcp(_ number: CInt) -> Self {
    Self(level: .tcp, name: NIOBSDSocket.Option(rawValue: number))
  }
}

/// The address cannot be listened on.
public struct ListenError: Error, Sendable {
  /// One sentence that says what to do.
  public let sentence: String

  init(host: String, port: Int, reason: String) {
    sentence = "cannot listen on \(host):\(port) (\(reason)); name another address or port"
  }
}
