package import CanopySession
internal import Foundation
package import NIOCore
internal import NIOSSL
internal import Synchronization

/// The certificate and the private key with which the ports speak TLS, from a pair of files.
///
/// The files can be read again while connections are open: new connections use the new pair. Safe to use from any
/// thread.
package final class TLSCertificate: Sendable {
  /// The protocol inside of TLS.
  package enum Inner: Sendable {
    case http
    case lines
  }

  private struct Contexts {
    let http: NIOSSLContext
    let lines: NIOSSLContext
  }

  /// The file with the certificate, followed by those of its issuers.
  private let certificateFile: String
  /// The file with the private key.
  private let keyFile: String
  private let contexts: Mutex<Contexts>

  /// Reads a pair of files in the format PEM.
  ///
  /// - Throws: ``TLSCertificateError``.
  package init(certificateFile: String, keyFile: String) throws(TLSCertificateError) {
    self.certificateFile = certificateFile
    self.keyFile = keyFile
    contexts = Mutex(try TLSCertificate.read(certificateFile, keyFile))
  }

  /// Reads the files again, for new connections.
  ///
  /// - Throws: ``TLSCertificateError``. Then the present pair stays in use.
  package func reload() throws(TLSCertificateError) {
    let new = try TLSCertificate.read(certificateFile, keyFile)
    contexts.withLock { $0 = new }
  }

  /// The seconds for which the end of a connection waits for the other side.
  private static let shutdownSeconds: Int64 = 1

  private static func read(
    _ certificateFile: String, _ keyFile: String
  ) throws(TLSCertificateError) -> Contexts {
    let chain = try parsed(certificateFile, "certificate") { bytes in
      let chain = try NIOSSLCertificate.fromPEMBytes(bytes)
      return chain.isEmpty ? nil : chain
    }
    let key = try parsed(keyFile, "private key") { bytes in
      try NIOSSLPrivateKey(bytes: bytes, format: .pem)
    }
    var configuration = TLSConfiguration.makeServerConfiguration(
      certificateChain: chain.map { .certificate($0) }, privateKey: .privateKey(key))
    configuration.minimumTLSVersion = .tlsv12
    // The others cost the server several times as much for each handshake. Every client of TLS 1.2 and 1.3 has one of these.
    configuration.curves = [.x25519_MLKEM768, .x25519, .secp256r1]
    configuration.shutdownTimeout = .seconds(shutdownSeconds)
    do {
      let lines = try NIOSSLContext(configuration: configuration)
      configuration.applicationProtocols = ["http/1.1"]
      return Contexts(http: try NIOSSLContext(configuration: configuration), lines: lines)
    } catch {
      throw TLSCertificateError(
        sentence: "the private key in \(keyFile) does not belong to the certificate in "
          + "\(certificateFile); name the two files of one pair")
    }
  }

  /// Returns the content of a file.
  static func parsed<R>(
    _ file: String, _ content: String, _ parse: ([UInt8]) throws -> R?
  ) throws(TLSCertificateError) -> R {
    let bytes: [UInt8]
    do { bytes = Array(try Data(contentsOf: URL(fileURLWithPath: file))) } catch {
      throw TLSCertificateError(
        sentence: "cannot read the \(content) file \(file); check its path and its permissions")
    }
    guard let result = try? parse(bytes) else {
      throw TLSCertificateError(
        sentence: "\(file) contains no \(content) in the format PEM, without a password")
    }
    return result
  }
}

extension TLSCertificate {
  /// The seconds that a client has for the handshake.
  package static let handshakeSeconds: Int64 = 10
  /// The bytes that TLS makes the server hold for a connection, with an unfinished record of the largest size. Measured by
  /// the growth of a release process (RSS): a connection with such a record took 58 KiB with lines and 64 KiB with HTTP in
  /// all, and 30 KiB less without one.
  package static let connectionBytes = 52 * 1024
  /// The bytes that TLS makes the server hold for a connection whose handshake is not complete, besides the bytes that have
  /// come. The server grew by about 7 KiB for each such connection.
  package static let handshakeBytes = 8 * 1024

  /// Adds the handlers of TLS at the end of a pipeline, which has no handlers of a protocol yet.
  ///
  /// Call it on the channel's event loop.
  ///
  /// - Parameters:
  ///   - inner: the protocol inside of TLS.
  ///   - refusal: the bytes for a client that does not speak TLS.
  ///   - memory: is charged with the memory of the connection, from the first byte of the handshake on.
  ///   - turns: the turns of the event loop, in which handshakes take place.
  package func addHandlers(
    to channel: any Channel, _ inner: Inner, refusal: ByteBuffer, memory: MemoryBudget,
    turns: LoopTurns, handshakeSeconds: Int64 = TLSCertificate.handshakeSeconds
  ) throws {
    let context = contexts.withLock { inner == .http ? $0.http : $0.lines }
    let handshake = HandshakeGuard(memory, seconds: handshakeSeconds)
    try channel.pipeline.syncOperations.addHandlers([
      CutOffClose(), FirstByte(expectsTLS: true, refusal: refusal),
      HandshakeTurns(turns, handshake), NIOSSLServerHandler(context: context), handshake,
    ])
  }

  /// Adds a handler that ends the connection of a client that speaks TLS to a port without it.
  ///
  /// The client would wait for an answer, and the server for the end of its line. Call it on the channel's event loop.
  ///
  /// - Parameter refusal: the bytes for such a client.
  package static func addPlainHandler(to channel: any Channel, refusal: ByteBuffer) throws {
    try channel.pipeline.syncOperations.addHandler(
      FirstByte(expectsTLS: false, refusal: refusal))
  }

  /// The bytes that end a handshake of TLS: a fatal alert, which clients report as an internal error of the server.
  package static let alert = ByteBuffer(bytes: [21, 3, 3, 0, 2, 2, 80])
}

/// The error for a certificate and a key that cannot be used.
package struct TLSCertificateError: Error, Equatable, Sendable {
  /// A sentence that says what to do.
  package let sentence: String
}
