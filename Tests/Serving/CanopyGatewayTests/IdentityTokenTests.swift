import CanopyAccounts
import CanopyEngine
import CanopyIdentity
import CanopySession
import CanopyTesting
import CanopyTree
import CanopyWire
import Testing

@testable import CanopyGateway

/// The requests of Auth clients, and their identity tokens in the other requests.
@Suite(.timeLimit(.minutes(20))) struct IdentityTokenTests {
  private static let accept = ["Accept": "text/event-stream"]
  private static let accounts = "/identitytoolkit.googleapis.com/v1/accounts"

  private struct User {
    var uid: String
    var idToken: String
    var refreshToken: String
  }

  /// Makes a request about an account, and returns its response.
  private static func call(
    _ client: HTTPClient, _ name: String, _ body: String
  ) async throws -> HTTPClient.Response {
    try await client.request("POST", "\(accounts):\(name)?key=any", [:], body)
  }

  private static func signUp(
    _ client: HTTPClient, _ name: String = "ada"
  ) async throws -> User {
    let response = try await call(
      client, "signUp",
      #"{"email":"\#(name)@example.org","password":"engine of 1843","returnSecureToken":true}"#)
    try #require(response.status == 200, "\(response.text)")
    return User(
      uid: try #require(response.json?["localId"]?.string),
      idToken: try #require(response.json?["idToken"]?.string),
      refreshToken: try #require(response.json?["refreshToken"]?.string))
  }

  @Test func `an Auth client signs up, signs in and refreshes its token`() async throws {
    try await withGateway { server in
      try await server.connect { client in
        let user = try await Self.signUp(client)
        let again = try await Self.call(
          client, "signUp", #"{"email":"ada@example.org","password":"engine of 1843"}"#)
        #expect(again.status == 400, "\(again)")
        #expect(again.json?["error"]?["message"]?.string == "EMAIL_EXISTS", "\(again)")
        let fields = ["Content-Type": "application/x-www-form-urlencoded"]
        let token = try await client.request(
          "POST", "/securetoken.googleapis.com/v1/token?key=any", fields,
          "grant_type=refresh_token&refresh_token=\(user.refreshToken)")
        #expect(token.status == 200 && token.json?["user_id"]?.string == user.uid, "\(token)")
        let keys = try await client.request("GET", "/.well-known/jwks.json")
        #expect(keys.status == 200 && keys.text.contains("ES256"), "\(keys)")
        // A client in a browser.
        let page = try await client.request(
          "POST", "\(Self.accounts):lookup", ["Origin": "https://example.org"],
          #"{"idToken":"\#(user.idToken)"}"#)
        #expect(page.status == 200 && page.fields["access-control-allow-origin"] == "*", "\(page)")
        #expect(try await client.request("GET", "\(Self.accounts):lookup").status != 200)
        let long = String(repeating: " ", count: 65 * 1024)
        #expect(try await Self.call(client, "lookup", long).status == 413)
      }
    }
  }

  @Test func `an identity token names the user in each of its three places`() async throws {
    let rules = """
      {"rules": {"users": {"$uid": {".read": "auth.uid == $uid", ".write": "auth.uid == $uid"}},
       "mail": {".read": "auth.token.email == 'ada@example.org' && auth.provider == 'password'"}}}
      """
    try await withGateway(rules: rules) { server in
      try await server.connect { client in
        let user = try await Self.signUp(client)
        let path = "/users/\(user.uid)/x.json"
        let put = try await client.request("PUT", "\(path)?auth=\(user.idToken)", [:], "1")
        #expect(put.status == 200, "\(put)")
        try await client.expect("GET", "\(path)?access_token=\(user.idToken)", text: "1")
        let field = ["Authorization": "Bearer \(user.idToken)"]
        try await client.expect("GET", path, field, text: "1")
        try await client.expect("GET", "/mail.json", field, status: 200)
        try await client.expect("GET", "/users/other.json", field, status: 401)
        let other = try await Self.signUp(client, "eve")
        let stranger = try await client.request("GET", "/mail.json?auth=\(other.idToken)")
        #expect(stranger.status == 401, "\(stranger)")
        let forged = try await client.request("GET", "\(path)?auth=\(user.idToken.dropLast(3))AAA")
        #expect(forged.status == 401, "\(forged)")
        #expect(forged.text == #"{"error":"Could not parse auth token."}"#, "\(forged)")
        server.parts.clock.advance(3_600 * 1_000)
        try await client.expect("GET", path, field, status: 401)
      }
      try await eventually { server.parts.operations.sessions.count == 0 }
    }
  }

  @Test func `the user of an identity token writes a post over the line protocol`() async throws {
    try await withGateway(rules: nil) { server in
      _ = try await server.signUp("ada")
      try await server.connect { client in
        let login = try await Self.call(
          client, "signInWithPassword",
          #"{"email":"ada@example.org","password":"engine of 1843","returnSecureToken":true}"#)
        let token = try #require(login.json?["idToken"]?.string)
        try await server.connect { line in
          #expect(try await line.upgrade("/line") == 101)
          try await line.send(message: "AUTH \(token)")
          #expect(try await line.message().contains(#""username":"ada""#))
          try await line.expect(line: "POST Engines Notes", hasPrefix: "+{\"id\":")
          // That drops the token on this connection only.
          try await line.expect(line: "LOGOUT", "+null")
          try await line.expect(line: "POST Engines Notes", failsWith: "UNAUTHENTICATED")
          try await line.expect(line: "AUTH \(token)", hasPrefix: "+{")
        }
        let posts = try await client.request("GET", "/posts.json?shallow=true&auth=\(token)")
        #expect(posts.status == 200 && posts.text != "null", "\(posts)")
      }
    }
  }

  @Test(arguments: ["disabled", "deleted"])
  func `an account that the administrator ends loses its streams, tokens and WebSockets at once`(
    _ end: String
  ) async throws {
    try await withGateway { server in
      try await server.connect { client in
        let user = try await Self.signUp(client)
        try await server.connect { stream in
          try await stream.begin("GET", "/open/a.json?auth=\(user.idToken)", Self.accept)
          #expect(try await stream.head().status == 200)
          #expect(try await stream.event().hasPrefix("put "))
          try await server.connect { line in
            #expect(try await line.upgrade("/line") == 101)
            try await line.expect(line: "AUTH \(user.idToken)", hasPrefix: "+{")
            let request: AdministrationRequest =
              end == "disabled"
              ? .setDisabled(true, .uid(user.uid)) : .deleteUser(.uid(user.uid), withPosts: false)
            let completion = await server.parts.operations.administration(
              request, as: .administrator)
            if case .failure(let error) = completion.reply { throw error }
            #expect(try await stream.event() == "auth_revoked credential is no longer valid")
            await #expect(throws: LineClientError.closed) { try await stream.event() }
            try await line.expect(line: "WHOAMI", "+null")
            for token in [user.idToken, user.refreshToken] {
              let refused = try await client.request("GET", "/open/a.json?auth=\(token)")
              #expect(refused.status == 401, "\(refused)")
              try await line.expect(line: "AUTH \(token)", failsWith: "UNAUTHENTICATED")
            }
          }
        }
      }
    }
  }

  @Test func `a new password over HTTP ends the streams and the sessions of the user at once`()
    async throws
  {
    try await withGateway { server in
      try await server.connect { client in
        let user = try await Self.signUp(client)
        let login = await server.parts.operations.account(
          .authenticate(token: user.refreshToken), as: .anonymous, from: "local")
        guard case .user(let session)? = login.identity else { throw LineClientError.closed }
        try await server.connect { stream in
          // Everybody may read this location, so that the rules do not end the stream.
          try await stream.begin("GET", "/open/a.json?auth=\(user.idToken)", Self.accept)
          #expect(try await stream.head().status == 200)
          #expect(try await stream.event().hasPrefix("put "))
          #expect(session.isValid(at: server.parts.clock.now))
          let update = try await Self.call(
            client, "update",
            #"{"idToken":"\#(user.idToken)","password":"engine of 1844","returnSecureToken":true}"#)
          #expect(update.status == 200, "\(update)")
          #expect(!session.isValid(at: server.parts.clock.now))
          #expect(try await stream.event() == "auth_revoked credential is no longer valid")
          await #expect(throws: LineClientError.closed) { try await stream.event() }
          // The connection goes on, but not with that token.
          let old = try await stream.request("GET", "/open/a.json?auth=\(user.idToken)")
          #expect(old.status == 401, "\(old)")
          let new = try #require(update.json?["idToken"]?.string)
          try await stream.expect("GET", "/open/a.json?auth=\(new)", status: 200)
        }
      }
    }
  }

  @Test func `a stream ends with auth_revoked when its identity token expires`() async throws {
    try await withGateway {
      $0.keepAliveMilliseconds = 20
    } _: { server in
      try await server.connect { client in
        let user = try await Self.signUp(client)
        try await client.begin("GET", "/open/a.json?auth=\(user.idToken)", Self.accept)
        #expect(try await client.head().status == 200)
        #expect(try await client.event().hasPrefix("put "))
        #expect(try await client.event() == "keep-alive null")
        server.parts.clock.advance(3_600 * 1_000)
        var event = "keep-alive null"
        while event == "keep-alive null" { event = try await client.event() }
        #expect(event == "auth_revoked credential is no longer valid")
      }
    }
  }

  @Test func `the administrator of an emulator administers accounts, and nobody else`()
    async throws
  {
    let path = "/identitytoolkit.googleapis.com/v1/projects/canopy/accounts"
    let owner = ["Authorization": "Bearer owner"]
    let body = #"{"localId":"tester","email":"t@example.org","password":"engine of 1843"}"#
    try await withGateway { server in
      try await server.connect { client in
        let response = try await client.request("POST", path, owner, body)
        #expect(response.status >= 400, "\(response)")
      }
    }
    try await withGateway {
      $0.isEmulator = true
    } _: { server in
      try await server.connect { client in
        let created = try await client.request("POST", path, owner, body)
        #expect(created.status == 200 && created.json?["localId"]?.string == "tester", "\(created)")
        #expect(try await client.request("POST", path, [:], body).status >= 400)
      }
    }
  }

  @Test func `a code of an e-mail is delivered to the administrator, not to the client`()
    async throws
  {
    try await withGateway { server in
      try await server.connect { client in
        _ = try await Self.signUp(client)
        let sent = try await Self.call(
          client, "sendOobCode", #"{"requestType":"PASSWORD_RESET","email":"ada@example.org"}"#)
        try await eventually { !server.parts.codes.all.isEmpty }
        let code = try #require(server.parts.codes.all.first)
        #expect(sent.status == 200 && !sent.text.contains(code.text), "\(sent)")
        let reset = try await Self.call(
          client, "resetPassword", #"{"oobCode":"\#(code.text)","newPassword":"engine of 1844"}"#)
        #expect(reset.status == 200, "\(reset)")
      }
    }
  }

  @Test func `the administrator may have a request authorized as that of any caller`() async throws
  {
    try await withGateway {
      $0.isEmulator = true
    } _: { server in
      let owner = ["Authorization": "Bearer owner"]
      // {"uid":"ada"}
      let asAda = "auth_variable_override=%7B%22uid%22%3A%22ada%22%7D"
      try await server.connect { client in
        for field in [owner, server.administrator] {
          let path = "/users/ada/x.json"
          try await client.expect("PUT", "\(path)?\(asAda)", field, "1", status: 200)
          try await client.expect("GET", "\(path)?\(asAda)", field, text: "1")
          let other = "/users/eve/x.json"
          try await client.expect("GET", "\(other)?\(asAda)", field, status: 401)
          let nobody = "\(path)?auth_variable_override=null"
          try await client.expect("GET", nobody, field, status: 401)
          for wrong in ["1", "%5B", "%22ada%22", ""] {
            let target = "\(path)?auth_variable_override=\(wrong)"
            #expect(try await client.request("GET", target, field).status == 400, "\(wrong)")
          }
        }
        // It does not make a user another one.
        let user = try await Self.signUp(client)
        let path = "/users/ada/x.json?\(asAda)&auth=\(user.idToken)"
        try await client.expect("GET", path, status: 401)
        try await client.begin(
          "GET", "/users/ada/x.json?\(asAda)", owner.merging(Self.accept) { $1 })
        #expect(try await client.head().status == 200)
        #expect(try await client.event() == #"put {"path":"/","data":1}"#)
      }
    }
  }
}
