@testable import CanopyTree

/// Paths and locations that are written in a test's text; one that is not valid stops the test.
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
  /// A branch that is written in a test's text.
  static func of(_ children: KeyValuePairs<Key, Node>) -> Node {
    Node(children: children.map { ($0.key, $0.value) })
  }
}

extension Assignment {
  /// An assignment to a location that is written in a test's text.
  static func at(_ location: Location, _ value: Node) -> Assignment {
    Assignment(location, value)
  }
}

extension Key {
  /// The key of text that a test made up.
  static func of(_ text: String) -> Key {
    do throws(TreeError) {
      return try Key(text)
    } catch {
      preconditionFailure("\(text): \(error.sentence)")
    }
  }
}

/// Makes a literal a text.
private func verbatim(_ text: String) -> String { text }
