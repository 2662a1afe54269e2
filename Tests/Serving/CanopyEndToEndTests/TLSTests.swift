import CanopyTesting
import CanopyTree
import Foundation
import Testing

/// `canopy serve` with TLS.
@Suite(.timeLimit(.minutes(20))) struct TLSTests {
  @Test func `SIGHUP has the certificate read again, and a wrong pair changes nothing`()
    async throws
  {
    let (folder, data) = (try TemporaryFolder(), try TemporaryFolder())
    let files = try TestCertificate.first.write(to: folder)
    let server = try await ServerProcess(
      data: data.path,
      ["--tls-certificate", files.certificateFile, "--tls-key", files.keyFile],
      environment: ["CANOPY_HTTP_PORT": "0"])
    #expect(server.readyNames == ["tls", "https"])
    let open = try await server.connect(trusting: .first)
    #expect(try await open.value("PING").string == "PONG")
    let web = try await LineSocketClient(port: server.httpPort, trusting: .first)
    try await web.send("GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")
    #expect(try await web.readLine() == "HTTP/1.1 200 OK")

    try TestCertificate.second.write(to: folder)
    kill(server.pid, SIGHUP)
    try await eventually { server.log.contains("the certificate was read again") }
    let new = try await server.connect(trusting: .second)
    #expect(try await new.value("PING").string == "PONG")
    let newWeb = try await LineSocketClient(port: server.httpPort, trusting: .second)
    try await newWeb.send("GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")
    #expect(try await newWeb.readLine() == "HTTP/1.1 200 OK")
    #expect(try await open.value("PING").string == "PONG")

    try TestCertificate.first.write(to: folder, key: .second)
    kill(server.pid, SIGHUP)
    try await eventually { server.log.contains("the certificate could not be read again") }
    #expect(server.log.contains("does not belong to the certificate"))
    let last = try await server.connect(trusting: .second)
    #expect(try await last.value("PING").string == "PONG")
    #expect(try await server.terminate() == 0)
  }

  @Test func `the shell connects with TLS, and only to a server whose certificate it trusts`()
    async throws
  {
    let (folder, data) = (try TemporaryFolder(), try TemporaryFolder())
    let files = try TestCertificate.first.write(to: folder)
    let server = try await ServerProcess(
      data: data.path,
      ["--tls-certificate", files.certificateFile, "--tls-key", files.keyFile])
    let shell = ["shell", "--port", "\(server.port)"]
    for (host, environment) in [
      ("127.0.0.1", [:]), ("localhost", ["CANOPY_TRUST": files.certificateFile]),
    ]
      as [(String, [String: String])]
    {
      let trust = environment.isEmpty ? ["--trust", files.certificateFile] : []
      let ending = try await Command.run(
        shell + ["--host", host] + trust, input: "PING\nQUIT\n", environment: environment)
      #expect(ending.status == 0 && ending.errors.isEmpty, "\(ending)")
      #expect(ending.text.hasSuffix("+\"PONG\"\n+\"BYE\"\n"), "\(ending.text)")
    }
    // The system does not trust it.
    let stranger = try await Command.run(shell + ["--tls"], input: "PING\n")
    #expect(stranger.isSentence && stranger.output.isEmpty, "\(stranger)")
    #expect(stranger.errors.contains("--trust"))
    let second = try TemporaryFolder()
    let other = try TestCertificate.second.write(to: second)
    let wrong = try await Command.run(
      shell + ["--trust", other.certificateFile], input: "PING\n")
    #expect(wrong.isSentence && wrong.output.isEmpty, "\(wrong)")
    let missing = try await Command.run(shell + ["--trust", folder.path + "/no"], input: "")
    #expect(
      missing.isSentence && missing.errors.contains("cannot read the certificate file"),
      "\(missing)")
    let key = try await Command.run(shell + ["--trust", files.keyFile], input: "")
    #expect(key.isSentence && key.errors.contains("contains no certificate"), "\(key)")
    #expect(try await server.terminate() == 0)
  }

  @Test func `the shell with TLS says so if the port has none`() async throws {
    let data = try TemporaryFolder()
    let server = try await ServerProcess(data: data.path)
    let ending = try await Command.run(
      ["shell", "--port", "\(server.port)", "--tls"], input: "PING\n")
    #expect(ending.isSentence && ending.errors.contains("the port speaks TLS"), "\(ending)")
    #expect(try await server.terminate() == 0)
  }

  @Test func `a server with a wrong pair, or half of one, does not start`() async throws {
    let (folder, data) = (try TemporaryFolder(), try TemporaryFolder())
    let files = try TestCertificate.first.write(to: folder, key: .second)
    let wrong = try await Command.run([
      "serve", "--data", data.path, "--port", "0", "--tls-certificate", files.certificateFile,
      "--tls-key", files.keyFile,
    ])
    #expect(wrong.isSentence && wrong.status == 1, "\(wrong)")
    #expect(wrong.errors.contains("does not belong to the certificate"))
    let half = try await Command.run(
      ["serve", "--data", data.path, "--port", "0"],
      environment: ["CANOPY_TLS_KEY": files.keyFile])
    #expect(half.status == 64, "\(half)")
    #expect(half.errors.contains("--tls-certificate and --tls-key go together"))
    #expect(try data.files().isEmpty)
  }
}
