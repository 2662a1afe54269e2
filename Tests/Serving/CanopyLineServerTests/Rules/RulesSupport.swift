import CanopySocial
import CanopyTesting
import CanopyTree
import Testing

@testable import CanopyLineServer

extension TestServer {
  /// Replaces the rules by JSON text, which may contain line breaks.
  func set(rules: String) async throws {
    let administrator = try await connectAsAdministrator()
    try await administrator.value("RULES \(quoted(rules))")
    await administrator.disconnect()
  }

  /// Writes to the tree as the administrator.
  func set(_ path: String, _ json: String) async throws {
    let administrator = try await connectAsAdministrator()
    try await administrator.value("SET \(path) \(json)")
    await administrator.disconnect()
  }
}

/// Returns a text as a JSON string.
func quoted(_ text: String) -> String {
  var output = JSONOutput()
  output.append(string: text)
  return output.text
}

/// A user with a connection.
struct Person {
  let client: any LineClient
  let uid: String
  let name: String

  init(_ server: TestServer, _ name: String) async throws {
    client = try await server.connect()
    uid = try await client.text("uid", TestServer.signUp(name))
    self.name = name
  }

  /// The published sample's post, with further members.
  func post(_ members: String = "") -> String {
    #"{"uid":"\#(uid)","author":"\#(name)","title":"Title","body":"Body"\#(members)}"#
  }

  func comment(_ text: String = "Text") -> String {
    #"{"uid":"\#(uid)","author":"\#(name)","text":"\#(text)"}"#
  }

  /// Writes a post to both of its places.
  func write(_ id: String) async throws {
    try await client.value(
      #"UPDATE / {"posts/\#(id)":\#(post()),"user-posts/\#(uid)/\#(id)":\#(post())}"#)
  }

  /// Expects that a request is refused and changes nothing.
  func expectDenied(
    _ line: String, _ server: TestServer, at location: SourceLocation = #_sourceLocation
  ) async throws {
    let before = server.root
    let code = try await client.code(line)
    #expect(code == "PERMISSION_DENIED", "\(line)", sourceLocation: location)
    #expect(server.root == before, "\(line)", sourceLocation: location)
  }

  /// Expects that a request is carried out, and that all parts of the tree agree afterwards.
  func expectAllowed(
    _ line: String, _ server: TestServer, at location: SourceLocation = #_sourceLocation
  ) async throws {
    let reply = try await client.request(line)
    #expect(reply.first == "+", "\(line): \(reply)", sourceLocation: location)
    #expect(SocialCheck.problems(in: server.root) == [], "\(line)", sourceLocation: location)
  }
}
