internal import CanopyAccounts
internal import Foundation

/// A server in the process of a test, for the tests of an application. Its data are in memory.
public struct TestServer: Sendable {
  /// The URL, for `Database(url:)` or `Database.database(url:)`.
  public let url: String
  /// The token of the administrator, for `Auth.signIn(withAdministratorToken:)`. The security rules do not apply to
  /// this user.
  public let administratorToken: String
  private let parts: LineParts

  init(_ parts: LineParts, port: Int) {
    url = "canopy://127.0.0.1:\(port)"
    administratorToken = parts.administratorToken.text
    self.parts = parts
  }

  /// Moves the server's time forward; it stands still otherwise.
  public func advance(milliseconds: Int64) {
    parts.clock.advance(milliseconds)
  }
}

/// Runs the body of a test with a server that has the built-in rules and no data, then shuts the server down. It
/// listens on a free port of the loopback interface, and its time is that of the machine at the start.
///
/// - Throws: the error of the body, or of starting the server.
public func withTestServer(_ body: (TestServer) async throws -> Void) async throws {
  try await withLineServer { parts, port in
    let now = Int64(NSDate().timeIntervalSince1970 * 1_000)
    parts.clock.advance(now - parts.clock.now)
    try await body(TestServer(parts, port: port))
  }
}
