package import CanopyEvents
package import CanopySession
internal import CanopyTree
internal import Foundation
internal import HummingbirdCore
package import Logging
internal import NIOCore
internal import NIOExtras
internal import NIOPosix
public import ServiceLifecycle

// CanopyGateway owns HTTP: the REST interface, the event streams and the identity requests, as official clients use
// them. It only translates: requests are carried out by CanopySession, identity requests by CanopyIdentity, events are
// delivered by CanopyEvents, and WebSockets are handed to CanopyRealtime. It must not know SQL.

/// The listener of the HTTP port: accepts connections until it is asked to shut down.
///
/// A graceful shutdown accepts no new connections. Requests that have begun are answered, event streams end, and
/// each connection closes. A client that does not read its response is cut off after some seconds.
public final class Gateway: Service {
  /// The address, the threads and the bounds of the port.
  public struct Configuration: Sendable {
    /// An address or host name of this machine.
    public var host = "127.0.0.1"
    /// A port; 0 for any that is free.
    public var port = 9000
    /// The number of threads that serve connections.
    public var threads = System.coreCount
    /// Whether the credential `owner` stands for the administrator, as in the emulators that official libraries
    /// know. For this machine alone.
    public var isEmulator = false
    /// The origins, such as `https://example.com`, whose web pages may use the line protocol at `/line`, besides the
    /// server's own.
    public var allowedOrigins: Set<String> = []
    /// The seconds of silence after which the kernel probes a connection; at most 32,767.
    public var heartbeatSeconds = 15
    /// The seconds after which a connection ends if its other side acknowledges nothing; at most 32,767.
    public var timeoutSeconds = 45
    /// The milliseconds between two `keep-alive` events of an event stream.
    public var keepAliveMilliseconds: Int64 = 30_000
    /// The seconds that clients have to read their last responses on shutdown.
    public var shutdownSeconds: Int64 = 10
    /// The certificate with which the port speaks TLS; nil for plain text.
    package var certificate: TLSCertificate?
    /// The times that a client may take.
    var patience = ConnectionGuard.Patience()

    /// Creates the default configuration.
    public init() {}
  }

  private let operations: Operations
  private let configuration: Configuration
  private let gate: ConnectionGate
  /// The event loops of the port.
  package let loops = RunningLoops()
  private let logger: Logger
  private let whenReady: @Sendable (_ host: String, _ port: Int) -> Void

  /// Creates a server that does not listen yet.
  ///
  /// - Parameters:
  ///   - gate: the connections of the port.
  ///   - whenReady: called once when connections are accepted, with the address.
  package init(
    _ operations: Operations, configuration: Configuration, gate: ConnectionGate, logger: Logger,
    whenReady: @escaping @Sendable (_ host: String, _ port: Int) -> Void
  ) {
    self.operations = operations
    self.configuration = configuration
    self.gate = gate
    self.logger = logger
    self.whenReady = whenReady
  }

  /// Listens until graceful shutdown or cancellation.
  ///
  /// - Throws: `GatewayError` when the address cannot be used, or is not one of this machine alone for an emulator.
  public func run() async throws {
    guard !configuration.isEmulator || Gateway.loopback.contains(configuration.host) else {
      throw GatewayError.emulatorIsPublic
    }
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

  /// The hosts that only programs on this machine reach.
  public static let loopback: Set<String> = ["127.0.0.1", "::1", "localhost"]

  private func serve(on group: MultiThreadedEventLoopGroup) async throws {
    let quiescing = ServerQuiescingHelper(group: group)
    let child = GatewayChannel(operations, configuration: configuration, logger: logger)
    let listener = try await bind(child, quiescing, on: group)
    whenReady(configuration.host, listener.channel.localAddress?.port ?? configuration.port)
    await withTaskCancellationOrGracefulShutdownHandler {
      await withDiscardingTaskGroup { tasks in
        do {
          try await listener.executeThenClose { connections in
            for try await connection in connections {
              tasks.addTask { [logger] in await child.handle(value: connection, logger: logger) }
            }
          }
        } catch {
          logger.error("the HTTP port fails", metadata: ["error": "\(error)"])
        }
      }
    } onCancelOrGracefulShutdown: { [gate, configuration] in
      quiescing.initiateShutdown(promise: nil)
      group.any().scheduleTask(in: .seconds(configuration.shutdownSeconds)) { gate.closeAll() }
    }
    // The loop of the port notes the end of each connection, and must not end before it has.
    let done = group.any().makePromise(of: Void.self)
    quiescing.initiateShutdown(promise: done)
    try? await done.futureResult.get()
  }

  private func bind(
    _ child: GatewayChannel, _ quiescing: ServerQuiescingHelper,
    on group: MultiThreadedEventLoopGroup
  ) async throws -> NIOAsyncChannel<GatewayChannel.Value, Never> {
    let mark = min(operations.limits.unreadReplyBytesMax, 32 * 1024)
    let bootstrap = ServerBootstrap(group: group)
      .serverChannelOption(.backlog, value: 1024)
      .serverChannelOption(.socketOption(.so_reuseaddr), value: 1)
      .serverChannelInitializer { [logger, gate] channel in
        channel.eventLoop.makeCompletedFuture {
          try channel.pipeline.syncOperations.addHandlers([
            AcceptPause(logger: logger) { gate.makeRoom() },
            quiescing.makeServerChannelHandler(channel: channel),
          ])
        }
      }
      .childChannelOption(.allowRemoteHalfClosure, value: true)
      // One read of up to 64 KiB, then other connections: by default one that sends much has four such reads.
      .childChannelOption(.maxMessagesPerRead, value: 1)
      .childChannelOption(.recvAllocator, value: ReadBuffers())
      .childChannelOption(.writeBufferWaterMark, value: .init(low: mark / 2, high: mark))
      .childChannelOption(.tcpOption(.tcp_nodelay), value: 1)
      .childChannelOption(.socketOption(.so_keepalive), value: 1)
      .childChannelOption(.tcp(TCP_KEEPIDLE), value: configuration.heartbeatSeconds)
      .childChannelOption(.tcp(TCP_KEEPINTVL), value: configuration.heartbeatSeconds)
      .childChannelOption(.tcp(TCP_USER_TIMEOUT), value: configuration.timeoutSeconds * 1000)
      // The kernel takes up to 4 MiB of each client that does not read, which no ledger counts.
      .childChannelOption(.tcp(TCP_NOTSENT_LOWAT), value: SendQueue.unsentBytesMax)
    do {
      return try await bootstrap.bind(host: configuration.host, port: configuration.port) {
        [operations, gate, logger, configuration] channel in
        let mayEnter = gate.enter(channel, shortage: operations.memory.shortage) {
          configuration.certificate == nil ? HTTPAnswer.raw($0) : TLSCertificate.alert
        }
        guard mayEnter else {
          return channel.eventLoop.makeSucceededFuture(child.refused(channel))
        }
        return child.setup(channel: channel, logger: logger)
      }
    } catch {
      let reason = (error as? IOError).map { String(cString: strerror($0.errnoCode)) }
      throw GatewayError.cannotListen(
        host: configuration.host, port: configuration.port, reason: reason ?? "\(error)")
    }
  }
}

/// The HTTP port cannot serve.
public enum GatewayError: Error, Equatable, Sendable {
  /// The server cannot listen on the address.
  case cannotListen(host: String, port: Int, reason: String)
  /// The server is an emulator, and other machines could connect.
  case emulatorIsPublic

  /// A sentence that says what to do.
  public var sentence: String {
    switch self {
    case .cannotListen(let host, let port, let reason):
      "cannot listen for HTTP on \(host):\(port) (\(reason)); name another port with --http-port, or off"
    case .emulatorIsPublic:
      "an emulator trusts all its clients; use --emulator with --host 127.0.0.1 only"
    }
  }
}

extension ChannelOption where Self == ChannelOptions.Types.SocketOption {
  /// Returns the option of TCP with a number of the kernel.
  fileprivate static func tcp(_ number: CInt) -> Self {
    Self(level: .tcp, name: NIOBSDSocket.Option(rawValue: number))
  }
}
