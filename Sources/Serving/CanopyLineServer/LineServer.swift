package import CanopyEvents
public import CanopySession
internal import CanopyTree
internal import CanopyWire
internal import Foundation
public import Logging
package import NIOCore
internal import NIOExtras
internal import NIOPosix
public import ServiceLifecycle
internal import Synchronization

/// The listener of the line protocol: accepts connections until it is asked to shut down.
///
/// A graceful shutdown accepts no new connections and reads no more bytes. The requests that were
/// received are carried out and answered. Then each connection closes. A client that does not read its
/// replies is cut off after some seconds.
public final class LineServer: Service {
  /// The address, the threads and the times of a listener.
  public struct Configuration: Sendable {
    /// An address or host name of this machine.
    public var host = "127.0.0.1"
    /// A port; 0 for any that is free.
    public var port = 7070
    /// The number of threads that serve connections. The default is half of the cores: the engine, the
    /// store, password hashing and local clients need the other half. (On two cores that also run the
    /// clients, one thread answers PING and notifies many listeners faster than two threads, which
    /// compete for the cores. Long lists take longer with one thread.)
    public var threads = max(1, System.coreCount / 2)
    /// The seconds of silence after which the kernel probes a connection; at most 32,767.
    public var heartbeatSeconds = 15
    /// The seconds after which a connection ends if its other side neither sends nor acknowledges
    /// anything; at most 32,767. The server notices it at most one heartbeat later.
    public var timeoutSeconds = 45
    /// The data folder in which the server also listens at a ``LocalSocket``; nil for no such socket.
    public var localSocketFolder: String?
    /// The seconds that clients have to read their last replies on shutdown.
    public var shutdownSeconds: Int64 = 10
    /// The certificate with which the port speaks TLS; nil for plain text. The ``LocalSocket`` has plain text.
    package var certificate: TLSCertificate?
    /// The seconds that a client has for the handshake of TLS.
    package var handshakeSeconds = TLSCertificate.handshakeSeconds

    /// Creates the default configuration.
    public init() {}
  }

  private let operations: Operations
  private let contexts: LoopLocals<NIOLoopBoundBox<LoopContext>>
  private let configuration: Configuration
  private let logger: Logger
  /// The connections of clients, the administrator's local ones excluded.
  package let gate: ConnectionGate
  /// The event loops of the port.
  package let loops = RunningLoops()
  private let whenReady: @Sendable (_ host: String, _ port: Int) -> Void

  /// Creates a server that does not listen yet.
  ///
  /// - Parameter whenReady: called once when connections are accepted, with the address.
  public init(
    _ operations: Operations, configuration: Configuration, logger: Logger,
    whenReady: @escaping @Sendable (_ host: String, _ port: Int) -> Void
  ) {
    self.operations = operations
    gate = ConnectionGate(
      connectionsMax: operations.limits.connectionsMax,
      perNetworkMax: operations.limits.connectionsPerAddressMax)
    contexts = LineServer.contexts(operations)
    self.configuration = configuration
    self.logger = logger
    self.whenReady = whenReady
  }

  /// Listens until graceful shutdown or cancellation.
  ///
  /// - Throws: `ListenError` when the address cannot be used.
  public func run() async throws {
    let group = MultiThreadedEventLoopGroup(numberOfThreads: configuration.threads)
    loops.begin(group)
    do {
      try await serve(on: group)
      loops.end()
    } catch {
      loops.end()
      // A failed attempt to listen leaves objects that use the loops once more when they are released.
      for loop in group.makeIterator() { try? await loop.submit {}.get() }
      try? await group.shutdownGracefully()
      throw error
    }
    try await group.shutdownGracefully()
  }

  /// Returns the things that the connections of each event loop share.
  ///
  /// - Parameters:
  ///   - encoded: the texts that they share with other protocols on their loop; nil for their own.
  ///   - now: the clock by which the turns of connections end.
  static func contexts(
    _ operations: Operations, encoded: LoopLocals<EncodedNodes>? = nil,
    now: @escaping @Sendable () -> NIODeadline = { .now() }
  ) -> LoopLocals<NIOLoopBoundBox<LoopContext>> {
    LoopLocals { loop in
      .makeBoxSendingValue(
        LoopContext(operations, loop: loop, encoded: encoded?.value(of: loop), now: now),
        eventLoop: loop)
    }
  }

  private func serve(on group: MultiThreadedEventLoopGroup) async throws {
    let remote = Listener(group: group, gate: gate, isLocal: false)
    let channel = try await bind(remote, on: group)
    let port = channel.localAddress?.port ?? configuration.port
    let local = await listenLocally(on: group)
    whenReady(configuration.host, port)
    let silence = closeSilent(of: remote.gate, on: group.any())
    let listeners = [remote, local?.listener].compactMap { $0 }

    // Cancellation shuts down as well: another service may have failed.
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
    if let folder = configuration.localSocketFolder, let local {
      try? await LocalSocket.remove(local.socket, in: folder)
    }
  }

  private func bind(
    _ listener: Listener, on group: MultiThreadedEventLoopGroup
  ) async throws -> any Channel {
    let bootstrap = bootstrap(listener, on: group)
      .childChannelOption(.tcpOption(.tcp_nodelay), value: 1)
      // The kernel probes a silent peer, so that a person with a terminal need not answer, and ends the
      // connection if the peer acknowledges nothing.
      .childChannelOption(.socketOption(.so_keepalive), value: 1)
      .childChannelOption(.tcp(TCP_KEEPIDLE), value: configuration.heartbeatSeconds)
      .childChannelOption(.tcp(TCP_KEEPINTVL), value: configuration.heartbeatSeconds)
      .childChannelOption(.tcp(TCP_USER_TIMEOUT), value: configuration.timeoutSeconds * 1000)
      // The kernel takes up to 4 MiB of each client that does not read, which no ledger counts.
      .childChannelOption(.tcp(TCP_NOTSENT_LOWAT), value: SendQueue.unsentBytesMax)
    do {
      return try await bootstrap.bind(host: configuration.host, port: configuration.port).get()
    } catch {
      throw ListenError(configuration.host, configuration.port, error)
    }
  }

  /// Listens for commands on the same machine, if the configuration names a folder. If the socket
  /// cannot be created, the server logs a warning and goes on.
  private func listenLocally(
    on group: MultiThreadedEventLoopGroup
  ) async -> (listener: Listener, socket: LocalSocket.Identity)? {
    guard let folder = configuration.localSocketFolder else { return nil }
    let listener = Listener(
      group: group,
      gate: ConnectionGate(
        connectionsMax: LineServer.localConnectionsMax,
        perNetworkMax: LineServer.localConnectionsMax), isLocal: true)
    do {
      let socket = try await LocalSocket.bind(in: folder)
      _ = try await bootstrap(listener, on: group).withBoundSocket(socket.handle).get()
      return (listener, socket.identity)
    } catch {
      logger.warning(
        "commands such as canopy rules cannot reach this server",
        metadata: ["error": "\((error as? LocalSocketError)?.sentence ?? "\(error)")"])
      return nil
    }
  }

  /// The most connections of local commands at one time. They do not count for the bound on the others,
  /// so that the administrator can connect when clients hold all of those.
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
            AcceptPause(logger: logger) { listener.gate.makeRoom() },
            listener.quiescing.makeServerChannelHandler(channel: channel),
          ])
        }
      }
      .childChannelOption(.allowRemoteHalfClosure, value: true)
      // One read of up to 64 KiB, then other connections: by default one that sends much has four such reads.
      .childChannelOption(.maxMessagesPerRead, value: 1)
      .childChannelOption(.recvAllocator, value: ReadBuffers())
      .childChannelOption(
        .writeBufferWaterMark, value: .init(low: mark / 2, high: mark)
      )
      .childChannelInitializer { [operations, contexts, configuration] channel in
        channel.eventLoop.makeCompletedFuture {
          let certificate = listener.isLocal ? nil : configuration.certificate
          let mayEnter = listener.gate.enter(
            channel, shortage: operations.memory.shortage,
            refusal: certificate.map { _ in { _ in TLSCertificate.alert } })
          guard mayEnter else { return }
          let shared = contexts.value(of: channel.eventLoop).value
          let pipeline = channel.pipeline.syncOperations
          if let certificate {
            try certificate.addHandlers(
              to: channel, .lines, refusal: LineServer.tlsNeeded, memory: operations.memory,
              turns: shared.turns, handshakeSeconds: configuration.handshakeSeconds)
          } else if !listener.isLocal {
            try TLSCertificate.addPlainHandler(to: channel, refusal: LineServer.tlsRefused)
          }
          try pipeline.addHandlers(shared.handlers())
        }
      }
  }

  /// The line for a client that does not speak TLS.
  private static let tlsNeeded = ConnectionGate.line(
    WireError(.badRequest, "this port speaks TLS; connect with TLS"))

  /// The line for a client that speaks TLS to a port without it.
  private static let tlsRefused = ConnectionGate.line(ForeignProtocol.tls.error)
}

/// The connections of one listener, and their graceful shutdown.
private struct Listener: Sendable {
  let quiescing: ServerQuiescingHelper
  let gate: ConnectionGate
  /// Whether its clients are commands on this machine.
  let isLocal: Bool

  init(group: MultiThreadedEventLoopGroup, gate: ConnectionGate, isLocal: Bool) {
    quiescing = ServerQuiescingHelper(group: group)
    self.gate = gate
    self.isLocal = isLocal
  }
}

extension LineServer {
  /// Closes connections that have been silent for too long. Checks twice in a heartbeat.
  ///
  /// The kernel alone is late for a connection with unsent data: it no longer probes the other side, and
  /// each send starts its count of seconds again. If many clients with events about each other are cut
  /// off together, the end of each would delay that of the others.
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
  /// Returns the option of TCP with a number of the kernel.
  fileprivate static func tcp(_ number: CInt) -> Self {
    Self(level: .tcp, name: NIOBSDSocket.Option(rawValue: number))
  }
}

/// The error for an address on which the server cannot listen.
public struct ListenError: Error, Sendable {
  /// A sentence that says what to do.
  public let sentence: String

  /// Creates the error for a port that cannot be opened.
  init(_ host: String, _ port: Int, _ error: any Error) {
    sentence =
      "cannot listen on \(host):\(port) (\(ListenError.reason(error))); name another address or port"
  }

  /// Creates the error for an address at which no port can be opened.
  private init(_ host: String, _ error: any Error) {
    sentence = "cannot listen on \(host) (\(ListenError.reason(error))); name another address"
  }

  private static func reason(_ error: any Error) -> String {
    (error as? IOError).map { String(cString: strerror($0.errnoCode)) } ?? "\(error)"
  }

  /// Checks that an address is one of this machine: opens a free port for a moment.
  ///
  /// - Throws: `ListenError`.
  public static func check(host: String) async throws {
    do {
      let group = MultiThreadedEventLoopGroup.singleton
      try await ServerBootstrap(group: group).bind(host: host, port: 0).get().close()
    } catch {
      throw ListenError(host, error)
    }
  }
}

/// The connections of the line protocol on channels that another listener has accepted. Safe to use from any thread.
package final class LineConnections: Sendable {
  private let contexts: LoopLocals<NIOLoopBoundBox<LoopContext>>

  /// - Parameter encoded: the texts that the connections share with other protocols on their loop; nil for their own.
  package init(_ operations: Operations, encoded: LoopLocals<EncodedNodes>? = nil) {
    contexts = LineServer.contexts(operations, encoded: encoded)
  }

  /// Adds the handler of the line protocol, which takes and sends bytes, at the end of a pipeline.
  ///
  /// Call it on the channel's event loop. The channel must be active, allow half-closure, and count as a connection of
  /// its client. The listener must have charged the memory that the connection takes while it is idle.
  package func addHandler(to channel: any Channel) throws {
    let handler = LineHandler(
      shared: contexts.value(of: channel.eventLoop).value, isWebSocket: true)
    try channel.pipeline.syncOperations.addHandler(handler)
  }

  /// Adds the handlers of a plain connection as the listener does, for a simulation. Call it on the channel's loop.
  package func addHandlers(to channel: any Channel) throws {
    let shared = contexts.value(of: channel.eventLoop).value
    try channel.pipeline.syncOperations.addHandlers(shared.handlers())
  }
}
