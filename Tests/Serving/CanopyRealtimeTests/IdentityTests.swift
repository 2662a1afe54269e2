import CanopySession
import CanopyTesting
import CanopyTree
import CanopyWire
import Testing

@testable import CanopyRealtime

/// The identity of a connection, and its end.
@Suite(.timeLimit(.minutes(20))) struct IdentityTests {
  private static let rules =
    #"{"rules":{"mine":{"$uid":{".read":"auth.uid === $uid",".write":"auth.uid === $uid"}},"#
    + #""all":{".read":true}}}"#

  @Test(arguments: Depth.allCases)
  func `a token gives its claims, and the rules see them`(_ depth: Depth) async throws {
    try await withRealtime(depth, rules: Self.rules) { server in
      let (token, uid) = try await server.signUp("ada")
      let client = try await server.connect()
      let write = #"{"p":"/mine/\#(uid)/a","d":1}"#
      try await client.request(1, "p", write, status: "permission_denied")
      try await client.send(2, "auth", #"{"cred":"\#(token)"}"#)
      let answer = try JSONValue(json: try await client.next())["d"]?["b"]
      #expect(answer?["s"]?.string == "ok")
      #expect(answer?["d"]?["auth"]?["uid"]?.string == uid)
      #expect(answer?["d"]?["auth"]?["provider"]?.string == "password")
      #expect(answer?["d"]?["auth"]?["token"]?["email"]?.string == "ada@example.com")
      #expect(answer?["d"]?["expires"]?.integer != nil)
      try await client.request(3, "p", write)
      // The token stays valid.
      try await client.request(4, "unauth", "{}")
      try await client.request(5, "p", write, status: "permission_denied")
      try await client.request(6, "auth", #"{"cred":"\#(token)"}"#)
      try await client.request(7, "p", write)
    }
  }

  @Test(arguments: Depth.allCases)
  func `a token that is not valid is refused, and so is the credential of an emulator`(
    _ depth: Depth
  ) async throws {
    try await withRealtime(depth, rules: Self.rules) { server in
      let client = try await server.connect()
      for (number, cred) in ["", "x", "owner"].enumerated() {
        try await client.request(
          number, "auth", #"{"cred":"\#(cred)"}"#, status: "invalid_token")
        try await client.request(
          number, "gauth", #"{"cred":"\#(cred)"}"#, status: "invalid_token")
      }
      try await client.request(9, "p", #"{"p":"/x","d":1}"#, status: "permission_denied")
    }
  }

  @Test(arguments: Depth.allCases)
  func `the owner of an emulator is the administrator`(_ depth: Depth) async throws {
    try await withRealtime(depth, rules: Self.rules, isEmulator: true) { server in
      let client = try await server.connect()
      try await client.request(
        1, "gauth", #"{"cred":"owner","authvar":{"uid":"u"}}"#, status: "invalid_parameters")
      try await client.request(2, "p", #"{"p":"/x","d":1}"#, status: "permission_denied")
      try await client.request(3, "gauth", #"{"cred":"owner"}"#)
      try await client.request(4, "p", #"{"p":"/x","d":1}"#)
    }
  }

  @Test(arguments: Depth.allCases)
  func `a listener is refused, or cancelled when the right to read ends`(
    _ depth: Depth
  ) async throws {
    try await withRealtime(depth, rules: Self.rules) { server in
      let (token, uid) = try await server.signUp("ada")
      let client = try await server.connect()
      let listen = #"{"p":"/mine/\#(uid)","h":""}"#
      try await client.request(1, "q", listen, status: "permission_denied")
      try await client.request(2, "auth", #"{"cred":"\#(token)"}"#)
      try await client.request(3, "q", listen)
      let query = #"{"l":1,"i":".key","vf":"l"}"#
      try await client.request(4, "q", #"{"p":"/mine/\#(uid)","q":\#(query),"t":5,"h":""}"#)
      try await client.request(5, "q", #"{"p":"/all","h":""}"#)
      try await client.send(6, "unauth", "{}")
      let cancelled = Set([try await client.next(), try await client.next()])
      #expect(
        cancelled == [
          #"{"t":"d","d":{"a":"c","b":{"p":"mine/\#(uid)"}}}"#,
          #"{"t":"d","d":{"a":"c","b":{"p":"mine/\#(uid)","q":[\#(query)]}}}"#,
        ])
      try await client.expect(answer: 6)
      // Clients stop listening all the same.
      try await client.request(7, "n", #"{"p":"/mine/\#(uid)"}"#)
    }
  }

  @Test(arguments: Depth.allCases)
  func `a revoked token is announced before its listeners are cancelled`(
    _ depth: Depth
  ) async throws {
    try await withRealtime(depth, rules: Self.rules) { server in
      let (token, uid) = try await server.signUp("ada")
      let client = try await server.connect()
      try await client.request(1, "auth", #"{"cred":"\#(token)"}"#)
      try await client.request(2, "q", #"{"p":"/mine/\#(uid)","h":""}"#)
      let other = await server.parts.operations.account(
        .authenticate(token: token), as: .anonymous, from: "192.0.2.9")
      let identity = try #require(other.identity)
      _ = await server.parts.operations.account(.logOut, as: identity, from: "192.0.2.9")
      try await client.expect(
        #"{"t":"d","d":{"a":"ac","b":{"s":"invalid_token","d":"the token has been revoked"}}}"#)
      try await client.expect(#"{"t":"d","d":{"a":"c","b":{"p":"mine/\#(uid)"}}}"#)
      try await client.request(
        3, "p", #"{"p":"/mine/\#(uid)","d":1}"#, status: "permission_denied")
      try await client.request(4, "auth", #"{"cred":"\#(token)"}"#, status: "invalid_token")
    }
  }

  @Test func `a token that expires is announced`() async throws {
    var settings = Limits()
    settings.listenersMax = 10
    try await withRealtime(.socket, limits: settings, rules: Self.rules) { server in
      let (token, uid) = try await server.signUp("ada")
      // The connection looks at the clock again after some milliseconds.
      let lifetime: Int64 = 30 * 24 * 60 * 60 * 1000
      server.parts.clock.advance(lifetime - 50)
      let client = try await server.connect()
      try await client.request(1, "auth", #"{"cred":"\#(token)"}"#)
      try await client.request(2, "q", #"{"p":"/mine/\#(uid)","h":""}"#)
      server.parts.clock.advance(50)
      try await client.expect(
        #"{"t":"d","d":{"a":"ac","b":{"s":"expired_token","d":"the token has expired"}}}"#)
      try await client.expect(#"{"t":"d","d":{"a":"c","b":{"p":"mine/\#(uid)"}}}"#)
    }
  }
}
