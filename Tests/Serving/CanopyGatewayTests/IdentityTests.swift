import CanopyAccounts
import CanopyEngine
import CanopyEvents
import CanopySession
import CanopyTesting
import CanopyTree
import CanopyWire
import Testing

@testable import CanopyGateway

/// The users of requests, and the security rules.
@Suite(.timeLimit(.minutes(20))) struct IdentityTests {
  @Test func `a token of Canopy names the user in each of its three places`() async throws {
    try await withGateway { server in
      let (token, uid) = try await server.signUp("ada")
      try await server.connect { client in
        let path = "/users/\(uid)/x.json"
        try await client.expect("PUT", "\(path)?auth=\(token)", [:], "1", status: 200)
        try await client.expect("GET", "\(path)?access_token=\(token)", text: "1")
        let field = ["Authorization": "Bearer \(token)"]
        try await client.expect("GET", path, field, text: "1")
        let other = try await client.request("GET", "/users/other.json", field)
        #expect(other.status == 401 && other.text == #"{"error":"Permission denied"}"#, "\(other)")
        try await client.expect("GET", path, status: 401)
        let bad = try await client.request("GET", "\(path)?auth=wrong")
        #expect(
          bad.status == 401 && bad.text == #"{"error":"Could not parse auth token."}"#, "\(bad)")
        let basic = try await client.request("GET", path, ["Authorization": "Basic YTpi"])
        #expect(basic.status == 401, "\(basic)")
      }
      try await eventually { server.parts.operations.sessions.count == 1 }
    }
  }

  @Test func `a connection that has authenticated a token looks it up once, and notices its end`()
    async throws
  {
    try await withGateway { server in
      let (token, uid) = try await server.signUp("ada")
      try await server.connect { client in
        let path = "/users/\(uid).json?auth=\(token)"
        for _ in 0..<3 {
          let response = try await client.request("GET", path)
          #expect(response.status == 200, "\(response)")
        }
        // The login of the sign-up, and that of this connection.
        #expect(server.parts.operations.sessions.count == 2)
        server.parts.clock.advance(400 * 24 * 3_600 * 1_000)
        try await client.expect("GET", path, status: 401)
      }
    }
  }

  @Test func `a connection that stays open sees the claims of a changed account`() async throws {
    try await withGateway { server in
      try await server.set(rules: #"{"rules":{".read":"auth.token.name === 'Ada'"}}"#)
      let (token, uid) = try await server.signUp("ada")
      try await server.connect { client in
        let field = ["Authorization": "Bearer \(token)"]
        try await client.expect("GET", "/a.json", field, status: 401)
        for (name, status) in [(AccountChanges.Text.set("Ada"), 200), (.remove, 401)] {
          var changes = AccountChanges()
          changes.displayName = name
          _ = try await server.parts.accounts.update(uid, changes, from: nil)
          for _ in 0..<2 {
            try await client.expect("GET", "/a.json", field, status: status)
            try await client.expect("GET", "/a.json?auth=\(token)", status: status)
          }
        }
        // The login of the sign-up, and the last one of this connection.
        #expect(server.parts.operations.sessions.count == 2)
      }
    }
  }

  @Test func `the administrator reads and replaces the rules, and nobody else`() async throws {
    try await withGateway { server in
      let (token, _) = try await server.signUp("ada")
      try await server.connect { client in
        let path = "/.settings/rules.json"
        for credential in ["", "?auth=\(token)"] {
          try await client.expect("GET", path + credential, status: 401)
          try await client.expect("PUT", path + credential, [:], openRules, status: 401)
        }
        let get = try await client.request("GET", path, server.administrator)
        #expect(get.text == openRules, "\(get)")
        let closed = #"{"rules":{".read":false}}"#
        let put = try await client.request("PUT", path, server.administrator, closed)
        #expect(put.status == 200 && put.text == #"{"status":"ok"}"#, "\(put)")
        try await client.expect("GET", path, server.administrator, text: closed)
        try await client.expect("GET", "/open.json", status: 401)
        try await client.expect("GET", "/open.json", server.administrator, status: 200)
        let wrong = try await client.request("PUT", path, server.administrator, "{\"rules\":7}")
        #expect(wrong.status == 400 && wrong.json?["error"]?.string != nil, "\(wrong)")
        try await client.expect("POST", path, server.administrator, "1", status: 405)
      }
    }
  }

  @Test func `rules are read as JSON without comments`() async throws {
    try await withGateway { server in
      try await server.connect { client in
        let path = "/.settings/rules.json"
        let text = """
          // Rules
          {"rules": /* all */ {".read": "'// no comment' != '\\"/*'
            && true", ".write": false}} // The end
          """
        let put = try await client.request("PUT", path, server.administrator, text)
        #expect(put.status == 200, "\(put.text)")
        try await client.expect("GET", path, server.administrator, text: text)
        let strict = try await client.request("GET", path + "?format=strict", server.administrator)
        #expect(strict.status == 200, "\(strict)")
        #expect(
          strict.json?["rules"]?[".read"]?.string == "'// no comment' != '\"/*'\n  && true",
          "\(strict.text)")
        let other = try await client.request("GET", path + "?format=other", server.administrator)
        #expect(other.status == 400, "\(other)")
      }
    }
  }

  @Test func `owner is the administrator of an emulator only`() async throws {
    let owner = ["Authorization": "Bearer owner"]
    try await withGateway { server in
      try await server.connect { client in
        let root = try await client.request("GET", "/.json", owner)
        #expect(root.status == 401, "\(root)")
        try await client.expect("GET", "/open.json?auth=owner", status: 401)
      }
    }
    try await withGateway {
      $0.isEmulator = true
    } _: { server in
      try await server.connect { client in
        let put = try await client.request("PUT", "/any.json", owner, "1")
        #expect(put.status == 200, "\(put)")
        try await client.expect("GET", "/.json?auth=owner", text: #"{"any":1}"#)
        let asNobody = "/any.json?auth_variable_override=null"
        try await client.expect("GET", asNobody, owner, status: 401)
      }
    }
  }

  @Test(
    arguments: [
      (nil, nil, true), ("http://localhost:5173", nil, true), ("https://app.localhost", nil, true),
      ("http://127.0.0.1:8080", nil, true), ("http://127.8.9.1", nil, true),
      ("http://[::1]:5173", nil, true), ("https://friend.example", nil, true),
      (nil, "127.0.0.1:9000", true), (nil, "[::1]:9000", true), (nil, "friend.example", true),
      ("https://evil.example", nil, false), ("null", nil, false), ("", nil, false),
      ("https://localhost.evil.example", nil, false), ("http://127.0.0.1.evil.example", nil, false),
      ("http://evil.example:9000", "evil.example:9000", false), (nil, "evil.example:9000", false),
      ("http://localhost:5173", "evil.example:9000", false), ("http://192.168.1.4", nil, false),
    ] as [(String?, String?, Bool)])
  func `an emulator accepts credentials that everybody knows, but not from foreign pages`(
    origin: String?, host: String?, isAccepted: Bool
  ) async throws {
    // {"alg":"none"}.{"sub":"victim"}
    let token = "eyJhbGciOiJub25lIn0.eyJzdWIiOiJ2aWN0aW0ifQ."
    var fields = ["Content-Type": "text/plain"]
    fields["Origin"] = origin
    fields["Host"] = host
    try await withGateway {
      $0.isEmulator = true
      $0.allowedOrigins = ["https://friend.example"]
    } _: { [fields] server in
      try await server.connect { client in
        let status = isAccepted ? 200 : 401
        let put = try await client.request("PUT", "/any.json?auth=owner", fields, "1")
        #expect(put.status == status, "\(put)")
        let get = try await client.request("GET", "/any.json?auth=owner", fields)
        #expect(get.status == status, "\(get)")
        let overriding = "/users/victim.json?auth=\(token)&x-http-method-override=PUT"
        try await client.expect("POST", overriding, fields, "1", status: status)
        let bearer = fields.merging(["Authorization": "Bearer owner"]) { $1 }
        try await client.expect("GET", "/any.json", bearer, status: status)
        let codes = "/emulator/v1/projects/canopy/oobCodes"
        try await client.expect("GET", codes, fields, status: status)
        let accounts = "/identitytoolkit.googleapis.com/v1/projects/canopy/accounts"
        try await client.expect("POST", accounts, bearer, "{}", status: status)
        // The rules of an emulator may allow everything, so a foreign page may not even make anonymous requests.
        try await client.expect("GET", "/open/a.json", fields, status: status)
        try await client.expect("PUT", "/open/a.json", fields, "1", status: status)
      }
    }
  }

  @Test(
    arguments: [(nil, true), ("http://localhost:5173", true), ("https://evil.example", false)]
      as [(String?, Bool)])
  func `a foreign page is not an administrator of an emulator over a WebSocket`(
    origin: String?, isAccepted: Bool
  ) async throws {
    try await withGateway {
      $0.isEmulator = true
    } _: { server in
      try await server.connect { client in
        var fields: [String: String] = [:]
        fields["Origin"] = origin
        #expect(try await client.upgrade("/.ws?v=5", fields) == (isAccepted ? 101 : 401))
        guard isAccepted else { return }
        _ = try await client.message()
        try await client.send(message: #"{"t":"d","d":{"r":1,"a":"gauth","b":{"cred":"owner"}}}"#)
        let answer = try await client.message()
        #expect(answer.contains(#""s":"ok""#), "\(answer)")
      }
    }
  }

  @Test(arguments: [
    ["Origin": "https://evil.example"], ["Sec-Fetch-Site": "cross-site"],
    ["Origin": "https://evil.example", "Accept": "text/event-stream"],
  ])
  func `a foreign page neither reads nor creates a namespace of an emulator`(
    _ fields: [String: String]
  ) async throws {
    let source = try MemoryNamespaces(["dev"], createdMax: 3)
    try await withGateway(namespaces: source) {
      $0.isEmulator = true
    } _: { server in
      try await server.connect { client in
        for path in [
          "/.json?ns=dev", "/.json?ns=new", "/.ws?ns=new", "/.settings/rules.json?ns=new",
        ] {
          let read = try await client.request("GET", path, fields)
          #expect(read.status == 401, "\(path)")
        }
        let written = try await client.request("PUT", "/.json?ns=new", fields, "1")
        #expect(written.status == 401, "\(written)")
      }
      #expect(source.opened == [])
    }
  }

  @Test func `a read does not create a namespace of an emulator, and their number is bounded`()
    async throws
  {
    let source = try MemoryNamespaces(["dev"], createdMax: 3)
    try await withGateway(namespaces: source) {
      $0.isEmulator = true
    } _: { server in
      try await server.connect { client in
        for name in ["a", "b", "c"] {
          let read = try await client.request("GET", "/x.json?ns=\(name)")
          #expect(read.status == 200 && read.text == "null", "\(read)")
          #expect(try await client.request("HEAD", "/x.json?ns=\(name)").status != 200)
          try await client.expect("GET", "/.ws?ns=\(name)", status: 426)
          try await client.expect("GET", "/.settings/rules.json?ns=\(name)", status: 401)
        }
        let tagged = try await client.request(
          "GET", "/x.json?ns=a", ["X-Firebase-ETag": "true"])
        #expect(tagged.text == "null" && tagged.fields["etag"] == Node.absent.etag, "\(tagged)")
        let silent = try await client.request("GET", "/x.json?ns=a&print=silent")
        #expect(silent.status == 204, "\(silent)")
        let ordered = #"/x.json?ns=a&orderBy="y"&limitToFirst=1"#
        try await client.expect("GET", ordered, text: "null")
        #expect(source.opened == [])
        try await client.expect("GET", "/x.json?ns=a&orderBy=1", status: 400)
        for name in ["a", "b"] {
          try await client.expect("PUT", "/x.json?ns=\(name)", [:], "1", status: 200)
          try await client.expect("GET", "/x.json?ns=\(name)", text: "1")
        }
        let refused = try await client.request("PUT", "/x.json?ns=c", [:], "1")
        #expect(
          refused.status == 413 && refused.text.contains("at most 3 namespaces"), "\(refused)")
        try await client.expect("GET", "/x.json?ns=c", text: "null")
        #expect(source.opened == ["a", "b"])
      }
      // The response to a WebSocket that may not create one has the reason.
      try await server.connect { client in
        let status = try await client.upgrade("/.ws?v=5&ns=c")
        #expect(status == 413)
      }
    }
  }

  @Test(arguments: ["127.0.0.1", "0.0.0.0"])
  func `sign-ups of foreign pages through this machine are limited`(host: String) async throws {
    try await withGateway {
      $0.host = host
    } _: { server in
      try await server.connect { client in
        let path = "/identitytoolkit.googleapis.com/v1/accounts:signUp"
        func count(_ fields: [String: String]) async throws -> Int {
          for number in 0..<70 {
            if try await client.request("POST", path, fields, "{}").status != 200 { return number }
          }
          return 70
        }
        for (fields, accepted) in [
          (["Origin": "https://evil.example"], 60), ([:], 70),
          (["Origin": "http://localhost:5173"], 70),
          // The name of the page resolves to this machine. All foreign pages count as one network.
          (["Origin": "http://evil.example:9000", "Host": "evil.example:9000"], 0),
        ] {
          let found = try await count(fields)
          #expect(found == accepted, "\(fields)")
        }
      }
    }
  }

  @Test(arguments: ["0.0.0.0", "::", "192.0.2.1"])
  func `an emulator does not listen for other machines`(host: String) async throws {
    await #expect(throws: GatewayError.emulatorIsPublic) {
      try await withGateway {
        $0.isEmulator = true
        $0.host = host
      } _: { _ in
      }
    }
  }

  @Test func `pages of every origin may make requests, and a preflight request is answered`()
    async throws
  {
    try await withGateway { server in
      try await server.connect { client in
        let preflight = try await client.request(
          "OPTIONS", "/open/a.json",
          [
            "Origin": "https://example.org", "Access-Control-Request-Method": "PUT",
            "Access-Control-Request-Headers": "x-firebase-etag",
          ])
        #expect(preflight.status == 200, "\(preflight)")
        #expect(preflight.fields["access-control-allow-origin"] == "*", "\(preflight)")
        #expect(
          preflight.fields["access-control-allow-headers"] == "x-firebase-etag", "\(preflight)")
        #expect(
          preflight.fields["access-control-allow-methods"]?.contains("PATCH") == true,
          "\(preflight)")
        let get = try await client.request("GET", "/open/a.json", ["Origin": "null"])
        #expect(get.fields["access-control-allow-origin"] == "*", "\(get)")
        #expect(get.fields["access-control-expose-headers"] == "ETag", "\(get)")
        let error = try await client.request("GET", "/x.json", ["Origin": "null"])
        #expect(
          error.status == 401 && error.fields["access-control-allow-origin"] == "*", "\(error)")
        #expect(
          try await client.request("GET", "/open.json").fields["access-control-allow-origin"]
            == nil)
        try await client.expect("GET", "/health", text: #"{"status":"ok"}"#)
      }
    }
  }
}
