@testable import CanopyTree

/// Literal paths and locations in tests; an invalid one stops the test.
extension Path: ExpressibleByStringLiteral {
  init(stringLiteral text: String) {
    do throws(TreeError) {
      try self.init(verbatim(text))
    } catch {
      preconditionFailure("\(text): \(error.sentence)")
    }
  }
}

extension Location: ExpressibleByStringLiteral {
  init(stringLiteral text: String) {
    do throws(TreeError) {
      try self.init(verbatim(text))
    } catch {
      preconditionFailure("\(text): \(error.sentence)")
    }
  }
}

extension Node {
  /// Returns a branch of literal children.
  static func of(_ children: KeyValuePairs<Key, Node>) -> Node {
    Node(children: children.map { ($0.key, $0.value) })
  }
}

extension Assignment {
  /// Returns an assignment to a literal location.
  static func at(_ location: Location, _ value: Node) -> Assignment {
    Assignment(location, value)
  }
}

extension Key {
  /// Returns the key of a test's text.
  static func of(_ text: String) -> Key {
    do throws(TreeError) {
      return try Key(text)
    } catch {
      preconditionFailure("\(text): \(error.sentence)")
    }
  }
}

/// Returns a literal as a string.
private func verbatim(_ text: String) -> String { text }
