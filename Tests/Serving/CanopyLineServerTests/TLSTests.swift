import CanopyEvents
import CanopyTesting
import Testing

@testable import CanopyLineServer

/// The line protocol with TLS.
@Suite(.timeLimit(.minutes(20))) struct TLSTests {
  @Test func `lines work with TLS, and the end of the input answers all requests`() async throws {
    try await Self.withTLS { port, _, _ in
      let client = try await LineSocketClient(port: port, trusting: .first)
      try await client.send("PING\nHELP\n")
      try await client.expectNext(to: "PING", "+\"PONG\"")
      try await client.expectNext(to: "HELP", hasPrefix: "+{")
      try await client.send("PING\nPING\n")
      try await client.shutDownSending()
      #expect(try await client.readToEnd() == ["+\"PONG\"", "+\"PONG\""])
      let other = try await LineSocketClient(port: port, trusting: .first)
      try await other.send("QUIT\n")
      #expect(try await other.readToEnd() == ["+\"BYE\""])
    }
  }

  @Test func `plain text on a port with TLS is answered with an error`() async throws {
    try await Self.withTLS { port, _, _ in
      let client = try await LineSocketClient(port: port)
      try await client.send("PING\n")
      #expect(
        try await client.readToEnd() == ["-BAD_REQUEST this port speaks TLS; connect with TLS"])
    }
  }

  @Test func `TLS on a port without TLS ends`() async throws {
    try await withLineServer { _, port in
      let client = try await LineSocketClient(port: port, trusting: .first)
      #expect(try await client.readToEnd() == [])
      // A handshake without a line end.
      let raw = try await LineSocketClient(port: port)
      try await raw.send([22, 3, 1, 2, 0])
      #expect(
        try await raw.readToEnd()
          == ["-BAD_REQUEST this port speaks lines without TLS; the connection closes"])
      // The same byte later is a request that is not valid.
      let plain = try await LineSocketClient(port: port)
      try await plain.send("PING\n\u{16}PING\nPING\n")
      try await plain.expectNext(to: "PING", "+\"PONG\"")
      try await plain.expectNext(to: "\u{16}PING", hasPrefix: "-")
      try await plain.expectNext(to: "PING", "+\"PONG\"")
    }
  }

  @Test func `a handshake that does not end is cut off`() async throws {
    try await Self.withTLS(handshakeSeconds: 1) { port, _, _ in
      let silent = try await LineSocketClient(port: port)
      let slow = try await LineSocketClient(port: port)
      try await slow.send([22, 3, 1, 1, 0, 1, 0])
      #expect(try await silent.readToEnd() == [])
      #expect(try await slow.readToEnd() == [])
    }
  }

  @Test func `new connections use a pair that was read again, and open ones stay`() async throws {
    try await Self.withTLS { port, certificate, folder in
      let open = try await LineSocketClient(port: port, trusting: .first)
      try await open.expect("PING", "+\"PONG\"")
      try TestCertificate.second.write(to: folder)
      try certificate.reload()
      let new = try await LineSocketClient(port: port, trusting: .second)
      try await new.expect("PING", "+\"PONG\"")
      let old = try await LineSocketClient(port: port, trusting: .first)
      #expect(try await old.readToEnd() == [])
      try await open.expect("PING", "+\"PONG\"")

      try TestCertificate.first.write(to: folder, key: .second)
      #expect(throws: TLSCertificateError.self) { try certificate.reload() }
      let last = try await LineSocketClient(port: port, trusting: .second)
      try await last.expect("PING", "+\"PONG\"")
    }
  }

  @Test func `a pair that cannot be used is refused with a sentence`() throws {
    let folder = try TemporaryFolder()
    let (certificate, key) = try TestCertificate.first.write(to: folder)
    let missing = folder.file("missing")
    func refusal(_ certificate: String, _ key: String) -> String? {
      do throws(TLSCertificateError) {
        _ = try TLSCertificate(certificateFile: certificate, keyFile: key)
        return nil
      } catch {
        return error.sentence
      }
    }
    #expect(refusal(certificate, key) == nil)
    #expect(
      refusal(missing, key)
        == "cannot read the certificate file \(missing); check its path and its permissions")
    #expect(
      refusal(certificate, missing)
        == "cannot read the private key file \(missing); check its path and its permissions")
    #expect(
      refusal(key, key) == "\(key) contains no certificate in the format PEM, without a password")
    #expect(
      refusal(certificate, certificate)
        == "\(certificate) contains no private key in the format PEM, without a password")
    try TestCertificate.first.write(to: folder, key: .second)
    #expect(
      refusal(certificate, key)
        == "the private key in \(key) does not belong to the certificate in \(certificate); "
        + "name the two files of one pair")
  }

  /// Runs a test with a port that has the first certificate.
  private static func withTLS(
    handshakeSeconds: Int64 = TLSCertificate.handshakeSeconds,
    _ body: (Int, TLSCertificate, TemporaryFolder) async throws -> Void
  ) async throws {
    let folder = try TemporaryFolder()
    let files = try TestCertificate.first.write(to: folder)
    let certificate = try TLSCertificate(
      certificateFile: files.certificateFile, keyFile: files.keyFile)
    try await withLineServer { configuration in
      configuration.certificate = certificate
      configuration.handshakeSeconds = handshakeSeconds
    } _: { _, port in
      try await body(port, certificate, folder)
    }
  }
}
