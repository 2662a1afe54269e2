/// Why a request failed: a code for programs and one sentence for people.
///
/// Both are safe to show. A login never says whether an e-mail address has an account. (A sign-up
/// that is refused does not say whether the address or the user name is taken; whoever knows the name
/// to be free can tell. Only confirmation by e-mail could hide that.)
public struct WireError: Error, Equatable, Sendable {
  /// The codes of the protocol. A code never changes its meaning.
  public enum Code: String, Sendable, CaseIterable {
    /// The request is not in the form that its verb asks for.
    case badRequest = "BAD_REQUEST"
    /// There is no such verb.
    case unknownVerb = "UNKNOWN_VERB"
    /// The request needs a login, or the login failed.
    case unauthenticated = "UNAUTHENTICATED"
    /// Whoever asks may not do this.
    case permissionDenied = "PERMISSION_DENIED"
    /// What the request is about is not there.
    case notFound = "NOT_FOUND"
    /// Somebody else has it, or it has changed.
    case conflict = "CONFLICT"
    /// The path is none.
    case invalidPath = "INVALID_PATH"
    /// A value breaks a rule.
    case invalidData = "INVALID_DATA"
    /// The parts of a query do not fit together.
    case invalidQuery = "INVALID_QUERY"
    /// Something exceeds a bound.
    case tooLarge = "TOO_LARGE"
    /// Too many attempts; the sentence says how long to wait.
    case rateLimited = "RATE_LIMITED"
    /// The server has too much to do.
    case overloaded = "OVERLOADED"
    /// The server cannot do this now; it may be tried again.
    case unavailable = "UNAVAILABLE"
    /// The server is at fault.
    case internalError = "INTERNAL"
  }

  /// What kind of failure it is.
  public var code: Code
  /// What is wrong and what to do about it: one line.
  public var sentence: String

  /// The most Unicode scalars in a sentence: it may repeat what was sent, and that may be long.
  private static let sentenceMax = 500

  /// An error. What cannot stand in one line or is not shown becomes a space, and what is too long is
  /// cut: one message is one short line.
  public init(_ code: Code, _ sentence: String) {
    self.code = code
    let isPlain = sentence.utf8.allSatisfy { $0 >= 0x20 && $0 < 0x7F }
    guard !isPlain || sentence.utf8.count > WireError.sentenceMax else {
      self.sentence = sentence
      return
    }
    let scalars = sentence.unicodeScalars
    var text = String.UnicodeScalarView(
      scalars.prefix(WireError.sentenceMax).lazy.map { WireError.isShown($0) ? $0 : " " })
    if scalars.dropFirst(WireError.sentenceMax).first != nil { text.append("…") }
    self.sentence = String(text)
  }

  private static func isShown(_ scalar: Unicode.Scalar) -> Bool {
    switch scalar.properties.generalCategory {
    case .control, .format, .lineSeparator, .paragraphSeparator: false
    default: true
    }
  }
}
