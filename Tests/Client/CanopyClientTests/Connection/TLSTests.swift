import CanopyAccounts
import CanopyClient
import CanopyEvents
import CanopyLineServer
import CanopyTesting
import CanopyTree
import Testing

/// `canopys://` and `https://`.
@Suite(.timeLimit(.minutes(20))) struct TLSTests {
  @Test(arguments: WireKind.allCases)
  func `only a server with a trusted certificate is accepted`(_ kind: WireKind) async throws {
    let folder = try TemporaryFolder()
    let (certificateFile, keyFile) = try TestCertificate.first.write(to: folder)
    let certificate = try TLSCertificate(certificateFile: certificateFile, keyFile: keyFile)
    try await withBackend(over: kind, certificate: certificate) { backend in
      let port = backend.port
      let scheme = kind == .line ? "canopys" : "https"
      for host in ["127.0.0.1", "localhost"] {
        var options = DatabaseOptions()
        options.trustedCertificatesFile = certificateFile
        let database = try Database(url: "\(scheme)://\(host):\(port)", options: options)
        try await Auth.auth(database: database).signIn(
          withAdministratorToken: backend.parts.administratorToken.text)
        try await database.reference(withPath: "by").setValue(host)
        #expect(backend.root == json("{\"by\":\"\(host)\"}"))
      }
      var options = DatabaseOptions()
      options.requestMilliseconds = 200
      let wary = try Database(url: "\(scheme)://127.0.0.1:\(port)", options: options)
      let error = await #expect(throws: AuthError.self) {
        try await Auth.auth(database: wary).signIn(
          withAdministratorToken: backend.parts.administratorToken.text)
      }
      #expect(error?.code == .networkError)
    }
  }
}
