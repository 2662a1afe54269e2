import CanopyTesting
import CanopyTree

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
