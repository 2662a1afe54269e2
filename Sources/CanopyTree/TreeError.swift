/// What can be wrong with a path, a value, a write or a query: a kind, and one sentence for a person.
public enum TreeError: Error, Equatable, Sendable {
  /// A key that is empty, too long, or holds a forbidden character.
  case invalidKey(String)
  /// A path that does not parse or is too deep.
  case invalidPath(String)
  /// A value or a write that breaks a rule of the tree.
  case invalidData(String)
  /// Text that is not JSON, and the offset of the byte where that shows.
  case invalidJSON(String, offset: Int)
  /// A query whose parts do not fit together.
  case invalidQuery(String)
  /// A value that is larger than a bound.
  case tooLarge(String)

  /// One sentence that says what is wrong and what would be right.
  public var sentence: String {
    switch self {
    case .invalidKey(let text), .invalidPath(let text), .invalidData(let text),
      .invalidQuery(let text), .tooLarge(let text):
      text
    case .invalidJSON(let text, let offset): "\(text) (at byte \(offset))"
    }
  }
}
