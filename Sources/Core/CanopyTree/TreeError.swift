/// An error in a path, a value, a write or a query: a kind, and a sentence for people.
public enum TreeError: Error, Equatable, Sendable {
  /// An empty or too long key, or one with a forbidden character.
  case invalidKey(String)
  /// A path that does not parse or is too deep.
  case invalidPath(String)
  /// A value or a write that breaks a rule of the tree.
  case invalidData(String)
  /// Text that is not JSON, and the offset of the first wrong byte.
  case invalidJSON(String, offset: Int)
  /// A query whose parts contradict each other.
  case invalidQuery(String)
  /// A value that is larger than a bound.
  case tooLarge(String)

  /// A sentence that says what is wrong and what would be right.
  public var sentence: String {
    switch self {
    case .invalidKey(let text), .invalidPath(let text), .invalidData(let text),
      .invalidQuery(let text), .tooLarge(let text):
      text
    case .invalidJSON(let text, let offset): "\(text) (at byte \(offset))"
    }
  }
}
