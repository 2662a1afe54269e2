import CanopyAccounts
import CanopyTesting
import CanopyTree
import CanopyWire
import Testing
@testable import CanopyLineServer
@testable import CanopySession

/// The limits on sign-ups and logins.
extension SessionTests {
  @Test(arguments: Depth.allCases)
  func `sign-ups from one address are limited, and the error has the time to wait`(_ depth: Depth)
    async throws
  {
    try await withServer(depth) {
      $0.accounts.signUpsMax = 2
    } _: { server in
      _ = try await server.connect(as: "ada")
      server.parts.clock.advance(15_000)
      _ = try await server.connect(as: "eve")
      let client = try await server.connect()
      // A socket of this machine is exempt.
      if depth == .inProcess {
        try await client.expect(
          TestServer.signUp("bob"),
          "-RATE_LIMITED [45000 ms] too many attempts; try again in 45 seconds")
        server.parts.clock.advance(45_000)
      }
      try await client.value(TestServer.signUp("bob"))
    }
  }

  @Test(arguments: Depth.allCases)
  func `after five failures the error has the time to wait, also for an unknown address`(
    _ depth: Depth
  ) async throws {
    try await withServer(depth) { server in
      _ = try await server.connect(as: "ada")
      let client = try await server.connect()
      var replies: [String: [String]] = [:]
      for address in ["ada@example.org", "nobody@example.org"] {
        for _ in 0..<6 {
          replies[address, default: []].append(
            try await client.request("LOGIN \(address) wrong-password"))
        }
      }
      #expect(replies["ada@example.org"] == replies["nobody@example.org"])
      let lines = try #require(replies["ada@example.org"])
      let wrong = "LOGIN ada@example.org wrong-password"
      for line in lines.prefix(5) { expectReply(line, to: wrong, failsWith: "UNAUTHENTICATED") }
      expectReply(
        lines[5], to: wrong, "-RATE_LIMITED [1000 ms] too many attempts; try again in 1 second")
      let right = "LOGIN ada@example.org \"secret words of ada\""
      try await client.expect(right, failsWith: "RATE_LIMITED")
      server.parts.clock.advance(1_000)
      try await client.value(right)
    }
  }

  @Test(arguments: Depth.allCases)
  func `failed logins by others delay LOGIN, but not PASSWORD in a session`(
    _ depth: Depth
  ) async throws {
    try await withServer(depth) { server in
      let ada = try await server.connect(as: "ada")
      let stranger = try await server.connect()
      for _ in 0..<5 {
        try await stranger.expect(
          "LOGIN ada@example.org wrong-password", failsWith: "UNAUTHENTICATED")
      }
      let right = "LOGIN ada@example.org \"secret words of ada\""
      try await stranger.expect(right, failsWith: "RATE_LIMITED")
      try await ada.value("PASSWORD \"secret words of ada\" \"other words of ada\"")
      for _ in 0..<5 {
        try await ada.expect("PASSWORD wrong-password another-secret", failsWith: "UNAUTHENTICATED")
      }
      try await ada.expect(
        "PASSWORD \"other words of ada\" another-secret",
        "-RATE_LIMITED [1000 ms] too many attempts; try again in 1 second")
    }
  }

  @Test(arguments: Depth.allCases)
  func `logins from one address are limited, and the error has the time to wait`(_ depth: Depth)
    async throws
  {
    try await withServer(depth) {
      $0.accounts.loginsMax = 2
    } _: { server in
      _ = try await server.connect(as: "ada")
      let login = "LOGIN ada@example.org \"secret words of ada\""
      for _ in 0..<2 { try await server.connect().value(login) }
      let client = try await server.connect()
      // A socket of this machine is exempt.
      if depth == .inProcess {
        try await client.expect(
          login, "-RATE_LIMITED [30000 ms] too many attempts; try again in 30 seconds")
        server.parts.clock.advance(30_000)
      }
      try await client.value(login)
    }
  }
}
