internal import CanopyWire
internal import NIOCore
internal import NIOPosix
internal import NIOSSL

/// One connection to a server, by one of the two protocols.
///
/// A transport moves messages and knows nothing of their meaning. Requests are `EncodedRequest`s of the protocol; what
/// the server sends comes as `TransportEvent`s.
protocol Transport: Sendable {
  /// Sends messages, each with a line feed at its end. Returns at once.
  func send(_ messages: ByteBuffer)
  /// Closes the connection. Returns at once; the event `closed` follows.
  func close()
}

/// An event of one connection, in order.
enum TransportEvent: Sendable {
  case opened(any Transport)
  /// Lines of the line protocol.
  case received([ServerLine])
  /// Messages of the realtime protocol.
  case receivedMessages([RealtimeMessage])
  /// The connection could not be opened, or has ended. No event follows.
  case closed(String)
}

extension Endpoint {
  /// Opens a connection to the server, with TLS if the URL asks for it.
  ///
  /// - Parameters:
  ///   - trusted: a file of certificates to trust instead of the system's.
  ///   - connector: opens the connection instead of the operating system.
  ///   - addHandlers: adds the handlers behind TLS, on the connection's event loop.
  ///   - completion: called once: with the channel on its event loop, before anything is read; or with the error.
  func connect(
    trusted: String?, timeoutMilliseconds: Int64, by connector: (any Connector)? = nil,
    addHandlers: @escaping @Sendable (any Channel) throws -> Void,
    completion: @escaping @Sendable (Result<any Channel, any Error>) -> Void
  ) {
    let tls: ClientTLS?
    do { tls = try ClientTLS(self, trusted: trusted) } catch {
      return completion(.failure(TLSFailure(description: "TLS cannot be set up: \(error)")))
    }
    let initializer: @Sendable (any Channel) -> EventLoopFuture<Void> = { channel in
      channel.eventLoop.makeCompletedFuture {
        if let tls { try channel.pipeline.syncOperations.addHandler(tls.handler()) }
        try addHandlers(channel)
      }
    }
    if let connector {
      return connector.connect(
        to: host, port: port, timeoutMilliseconds: timeoutMilliseconds, initializer: initializer
      ).whenComplete(completion)
    }
    ClientBootstrap(group: MultiThreadedEventLoopGroup.singleton)
      .connectTimeout(.milliseconds(timeoutMilliseconds))
      .channelOption(.tcpOption(.tcp_nodelay), value: 1)
      .channelInitializer(initializer)
      .connect(host: host, port: port)
      .whenComplete(completion)
  }
}

private struct TLSFailure: Error, CustomStringConvertible {
  let description: String
}

/// TLS towards one server.
private struct ClientTLS: Sendable {
  private let context: NIOSSLContext
  private let host: String

  /// Creates the settings of a connection; nil if its endpoint has no TLS.
  ///
  /// - Parameter trusted: a file of certificates to trust instead of the system's.
  init?(_ endpoint: Endpoint, trusted: String?) throws {
    guard endpoint.usesTLS else { return nil }
    var configuration = TLSConfiguration.makeClientConfiguration()
    if let trusted { configuration.trustRoots = .file(trusted) }
    context = try NIOSSLContext(configuration: configuration)
    host = endpoint.host
  }

  /// Returns the handler of one connection.
  func handler() throws -> NIOSSLClientHandler {
    // SNI allows names only; an IP address is compared with the certificate directly.
    let isAddress = (try? SocketAddress(ipAddress: host, port: 0)) != nil
    return try NIOSSLClientHandler(context: context, serverHostname: isAddress ? nil : host)
  }
}
