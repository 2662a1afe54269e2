internal import CanopyTree

/// The reason why a uid or the claims that an administrator gives are not accepted.
public enum ClaimsProblem: Error, Sendable, Equatable {
  /// The uid is not a key, or is too long.
  case invalidUID
  /// The claims are not a JSON object.
  case invalid
  /// The claims have too many bytes.
  case tooLarge
  /// The claims have too many levels.
  case tooDeep
  /// Only the server sets the claim with this name.
  case reserved(String)

  /// The maximum size of the claims, in bytes of JSON.
  static let bytesMax = 1_000

  /// The maximum number of levels of the claims. With the levels of a token, of `auth` in rules and of a stored
  /// on-disconnect write around them, they stay below the bound of all JSON.
  static let depthMax = 16

  /// One sentence that says what to do.
  public var sentence: String {
    switch self {
    case .invalidUID:
      "the uid must have 1 to 128 bytes, without . $ # [ ] / and control characters"
    case .invalid: "the claims must be a JSON object"
    case .tooLarge: "the claims may have at most \(Self.bytesMax) bytes; shorten them"
    case .tooDeep:
      "the claims may have at most \(Self.depthMax) levels of objects and arrays; flatten them"
    case .reserved(let name): "the server sets the claim \(name); choose another name"
    }
  }
}

extension JSONValue {
  /// The number of levels of objects and arrays. Bounded by the reader, so the recursion is too. O(size).
  var depth: Int {
    switch self {
    case .null, .leaf: 0
    case .array(let elements): 1 + (elements.map(\.depth).max() ?? 0)
    case .object(let members): 1 + (members.map(\.value.depth).max() ?? 0)
    }
  }
}
