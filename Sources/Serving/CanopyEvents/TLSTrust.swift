internal import Foundation
package import NIOCore
internal import NIOSSL

/// The certificates that a client trusts when it connects to a port with TLS. Safe to use from any thread.
package struct TLSTrust: Sendable {
  private let context: NIOSSLContext

  /// Reads the trusted certificates.
  ///
  /// - Parameter file: the file in PEM with the certificate of the server, or with that of its issuer; nil for the
  ///   certificates that the system trusts.
  /// - Throws: ``TLSCertificateError``.
  package init(file: String?) throws(TLSCertificateError) {
    var configuration = TLSConfiguration.makeClientConfiguration()
    if let file {
      let trusted = try TLSCertificate.parsed(file, "certificate") { bytes in
        let trusted = try NIOSSLCertificate.fromPEMBytes(bytes)
        return trusted.isEmpty ? nil : trusted
      }
      configuration.trustRoots = .certificates(trusted)
    }
    configuration.minimumTLSVersion = .tlsv12
    do { context = try NIOSSLContext(configuration: configuration) } catch {
      throw TLSCertificateError(sentence: "TLS cannot be set up: \(error)")
    }
  }

  /// Adds the handler of TLS at the end of the pipeline of a client. Call it on the channel's event loop.
  ///
  /// - Parameter host: the name or the address that the certificate must have.
  package func addHandler(to channel: any Channel, host: String) throws {
    // Only a name can be sent in the handshake; an address is compared with the certificate directly.
    let isAddress = (try? SocketAddress(ipAddress: host, port: 0)) != nil
    try channel.pipeline.syncOperations.addHandler(
      NIOSSLClientHandler(context: context, serverHostname: isAddress ? nil : host))
  }

  /// Whether an error only says that the server has closed the connection without the end of TLS.
  package static func isEnd(_ error: any Error) -> Bool {
    if case NIOSSLError.uncleanShutdown = error { true } else { false }
  }
}
