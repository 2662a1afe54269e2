internal import NIOCore
internal import NIOSSL
internal import CanopyWire

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

/// TLS towards one server.
struct ClientTLS: Sendable {
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
