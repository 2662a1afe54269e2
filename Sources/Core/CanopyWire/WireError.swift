public import CanopyTree

/// The reason why a request failed: a code for programs and a sentence for people.
///
/// Both are safe to show. A login never reveals whether an e-mail address has an account. (A
/// refused sign-up does not say whether the address or the user name is taken; a caller who knows
/// that the name is free can tell. Only confirmation by e-mail could hide that.)
public struct WireError: Error, Equatable, Sendable {
  /// The codes of the protocol. A code never changes its meaning.
  public enum Code: String, Sendable, CaseIterable {
    /// The request does not have the form that its verb requires.
    case badRequest = "BAD_REQUEST"
    /// The verb does not exist.
    case unknownVerb = "UNKNOWN_VERB"
    /// The request needs a login, the login failed, or the session has ended.
    case unauthenticated = "UNAUTHENTICATED"
    /// The caller may not do this.
    case permissionDenied = "PERMISSION_DENIED"
    /// The subject of the request does not exist.
    case notFound = "NOT_FOUND"
    /// The name is taken, or the state that the request relies on has changed.
    case conflict = "CONFLICT"
    /// The path is invalid.
    case invalidPath = "INVALID_PATH"
    /// A value is invalid.
    case invalidData = "INVALID_DATA"
    /// The parts of a query contradict each other.
    case invalidQuery = "INVALID_QUERY"
    /// A limit is exceeded.
    case tooLarge = "TOO_LARGE"
    /// The caller would store more than a user may.
    case quotaExceeded = "QUOTA_EXCEEDED"
    /// Too many attempts or writes; the error says how long to wait.
    case rateLimited = "RATE_LIMITED"
    /// The server is overloaded.
    case overloaded = "OVERLOADED"
    /// The server cannot do this now; try again later.
    case unavailable = "UNAVAILABLE"
    /// The server made a mistake.
    case internalError = "INTERNAL"
  }

  /// The precise reason of a failed request about an account, for programs. A reason never changes its meaning.
  public enum Reason: String, Sendable, CaseIterable {
    /// The text is not an e-mail address.
    case invalidEmail = "INVALID_EMAIL"
    /// The request needs an e-mail address, and the account has none.
    case missingEmail = "MISSING_EMAIL"
    /// The new password is not acceptable.
    case invalidPassword = "INVALID_PASSWORD"
    /// The e-mail address or the password is wrong.
    case wrongCredentials = "WRONG_CREDENTIALS"
    /// The token is invalid, or its session has ended.
    case sessionEnded = "SESSION_ENDED"
    /// The custom token is invalid or has expired, or the logins of its user have ended since it was made.
    case invalidCustomToken = "INVALID_CUSTOM_TOKEN"
    /// The code is invalid, or has been used.
    case invalidCode = "INVALID_CODE"
    /// The code has expired.
    case expiredCode = "EXPIRED_CODE"
    /// The e-mail address or the user name is taken.
    case taken = "TAKEN"
    /// The e-mail address is not that of the caller's account.
    case otherAccount = "OTHER_ACCOUNT"
    /// The account does not exist.
    case noAccount = "NO_ACCOUNT"
    /// The account is disabled.
    case accountDisabled = "ACCOUNT_DISABLED"
    /// The last login is too long ago.
    case loginTooOld = "LOGIN_TOO_OLD"
    /// The server has no identity tokens.
    case notOffered = "NOT_OFFERED"
  }

  /// The code.
  public var code: Code
  /// The reason. It is nil when the code is precise enough, and for an error that is not about an account.
  public var reason: Reason?
  /// The milliseconds after which the same request may succeed; nil if no time is known.
  public var retryMilliseconds: Int64?
  /// A sentence, in one line, that says what is wrong and what to do about it.
  public var sentence: String

  /// The most Unicode scalars in a sentence, which may repeat input of any length.
  private static let sentenceMax = 500

  /// Creates an error. Replaces invisible characters and line breaks by spaces and cuts off a long
  /// sentence, so that the message is one short line.
  public init(
    _ code: Code, reason: Reason? = nil, retryMilliseconds: Int64? = nil, _ sentence: String
  ) {
    self.code = code
    self.reason = reason
    self.retryMilliseconds = retryMilliseconds
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

extension WireError {
  private static let waitUnit = " ms] "
  /// The most digits of a wait: more than those of an hour.
  private static let waitDigitsMax = 18

  /// The sentence after the time to wait, such as `[1250 ms] too many writes`; the sentence alone without such a time.
  public var text: String {
    retryMilliseconds.map { "[\($0)\(WireError.waitUnit)\(sentence)" } ?? sentence
  }

  /// Creates an error from the text that ``text`` makes.
  public init(_ code: Code, reason: Reason? = nil, text: String) {
    let digits = text.utf8.dropFirst().prefix {
      $0 >= UInt8(ascii: "0") && $0 <= UInt8(ascii: "9")
    }
    let rest = text.utf8[digits.endIndex...]
    guard text.utf8.first == UInt8(ascii: "["), 1...WireError.waitDigitsMax ~= digits.count,
      rest.starts(with: WireError.waitUnit.utf8),
      let wait = Int64(String(decoding: digits, as: UTF8.self))
    else {
      self.init(code, reason: reason, text)
      return
    }
    let sentence = rest.dropFirst(WireError.waitUnit.utf8.count)
    self.init(
      code, reason: reason, retryMilliseconds: wait, String(decoding: sentence, as: UTF8.self))
  }

  /// Returns a wait in words, rounded up to seconds, or from two minutes on to minutes.
  public static func words(_ milliseconds: Int64) -> String {
    let whole = milliseconds / 1_000
    let seconds = max(1, milliseconds % 1_000 > 0 ? whole + 1 : whole)
    guard seconds > 120 else { return seconds == 1 ? "1 second" : "\(seconds) seconds" }
    return "\(seconds / 60 + (seconds % 60 == 0 ? 0 : 1)) minutes"
  }
}

extension WireError {
  /// Creates the wire error for an error of the tree.
  public init(_ error: TreeError) {
    switch error {
    case .invalidKey, .invalidPath: self.init(.invalidPath, error.sentence)
    case .invalidData, .invalidJSON: self.init(.invalidData, error.sentence)
    case .invalidQuery: self.init(.invalidQuery, error.sentence)
    case .tooLarge: self.init(.tooLarge, error.sentence)
    }
  }
}
