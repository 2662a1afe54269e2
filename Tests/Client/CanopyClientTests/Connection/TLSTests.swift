import CanopyAccounts
import CanopyClient
import CanopyTesting
import CanopyTree
import Foundation
import NIOCore
import NIOPosix
import NIOSSL
import Testing

/// `canopys://`, with a TLS terminator before the server.
@Suite(.timeLimit(.minutes(5))) struct TLSTests {
  @Test func `only a server with a trusted certificate is accepted`() async throws {
    try await withBackend { backend in
      let (port, channel) = try await Self.terminator(for: backend.port)
      let folder = try TemporaryFolder()
      let certificateFile = folder.file("ca.pem")
      try Self.certificate.write(toFile: certificateFile, atomically: true, encoding: .utf8)
      for host in ["127.0.0.1", "localhost"] {
        var options = DatabaseOptions()
        options.trustedCertificatesFile = certificateFile
        let database = try Database(url: "canopys://\(host):\(port)", options: options)
        try await Auth.auth(database: database).signIn(
          withAdministratorToken: backend.parts.administratorToken.text)
        try await database.reference(withPath: "by").setValue(host)
        #expect(backend.root == json("{\"by\":\"\(host)\"}"))
      }
      var options = DatabaseOptions()
      options.requestMilliseconds = 200
      let wary = try Database(url: "canopys://127.0.0.1:\(port)", options: options)
      let error = await #expect(throws: AuthError.self) {
        try await Auth.auth(database: wary).signIn(
          withAdministratorToken: backend.parts.administratorToken.text)
      }
      #expect(error?.code == .networkError)
      try await channel.close()
    }
  }

  /// Listens with TLS and forwards to a port of this machine, and back.
  private static func terminator(for target: Int) async throws -> (port: Int, any Channel) {
    let configuration = TLSConfiguration.makeServerConfiguration(
      certificateChain: try NIOSSLCertificate.fromPEMBytes(Array(certificate.utf8)).map {
        .certificate($0)
      },
      privateKey: .privateKey(try NIOSSLPrivateKey(bytes: Array(key.utf8), format: .pem)))
    let context = try NIOSSLContext(configuration: configuration)
    let channel = try await ServerBootstrap(group: MultiThreadedEventLoopGroup.singleton)
      .childChannelOption(.autoRead, value: false)
      .childChannelInitializer { near in
        ClientBootstrap(group: near.eventLoop).channelOption(.autoRead, value: false)
          .connect(host: "127.0.0.1", port: target)
          .flatMap { far in
            near.eventLoop.makeCompletedFuture {
              let pipeline = near.pipeline.syncOperations
              try pipeline.addHandler(NIOSSLServerHandler(context: context))
              try pipeline.addHandler(HandingOn(to: far))
              try far.pipeline.syncOperations.addHandler(HandingOn(to: near))
            }.flatMap {
              far.setOption(.autoRead, value: true)
                .and(near.setOption(.autoRead, value: true)).map { _ in }
            }
          }
      }
      .bind(host: "127.0.0.1", port: 0).get()
    return (channel.localAddress?.port ?? 0, channel)
  }

  /// A self-signed certificate for `localhost` and 127.0.0.1.
  private static let certificate = """
    -----BEGIN CERTIFICATE-----
    MIIBoDCCAUWgAwIBAgIUFyua/mbmnSCjegHEX0My1OyxpzUwCgYIKoZIzj0EAwIw
    FjEUMBIGA1UEAwwLY2Fub3B5IHRlc3QwIBcNMjYxMTIxMTA0NTE5WhgPMjEyNjEw
    MjgxMDQ1MTlaMBYxFDASBgNVBAMMC2Nhbm9weSB0ZXN0MFkwEwYHKoZIzj0CAQYI
    KoZIzj0DAQcDQgAEnUftVOCwDTIzEb0CJS+BNOmlNC24/AP/dAOKYKSMTKjri7hG
    KwmGVXI7dfEvaQEgicJMCUXbZ8tAEsg5DgL9FqNvMG0wHQYDVR0OBBYEFNnSzXcV
    kMASmG9oMZ4H8zwrRoFLMB8GA1UdIwQYMBaAFNnSzXcVkMASmG9oMZ4H8zwrRoFL
    MA8GA1UdEwEB/wQFMAMBAf8wGgYDVR0RBBMwEYcEfwAAAYIJbG9jYWxob3N0MAoG
    CCqGSM49BAMCA0kAMEYCIQCwun2s51Zf6cSG/eipIeoUUV5etkrVECkECV86t8Si
    7QIhAKrUe5WMM1cj27Z746GQJC0BQ8nqu6JGgbDS6chJSYoi
    -----END CERTIFICATE-----
    """

  private static let key = """
    -----BEGIN PRIVATE KEY-----
    MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgWNz0S77udNW2+7Ro
    GId7wBF8ZnmAdST4Ro8avtneZdihRANCAASdR+1U4LANMjMRvQIlL4E06aU0Lbj8
    A/90A4pgpIxMqOuLuEYrCYZVcjt18S9pASCJwkwJRdtny0ASyDkOAv0W
    -----END PRIVATE KEY-----
    """
}

/// One direction through the terminator.
private final class HandingOn: ChannelInboundHandler {
  typealias InboundIn = ByteBuffer

  private let other: any Channel

  init(to other: any Channel) {
    self.other = other
  }

  func channelRead(context: ChannelHandlerContext, data: NIOAny) {
    other.writeAndFlush(unwrapInboundIn(data), promise: nil)
  }

  func channelInactive(context: ChannelHandlerContext) {
    other.close(promise: nil)
  }

  func errorCaught(context: ChannelHandlerContext, error: any Error) {
    context.close(promise: nil)
  }
}
