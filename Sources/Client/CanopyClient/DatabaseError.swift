internal import CanopyTree
internal import CanopyWire

/// The reason why an operation failed: a code for programs and a sentence for people.
///
/// As an `NSError` it has the domain and the number of Firebase's library: 1 for a refusal by the
/// security rules, 2 if the server is unavailable, 3 for a write that was purged, and 9999 else.
public struct DatabaseError: Error, Equatable, Sendable {
  /// The kinds of failure.
  public enum Code: String, Sendable, CaseIterable {
    /// The path or a key is invalid.
    case invalidPath
    /// The value cannot be stored in the tree.
    case invalidData
    /// The parts of the query contradict each other.
    case invalidQuery
    /// The URL is not that of a Canopy server.
    case invalidURL
    /// The security rules do not allow the operation.
    case permissionDenied
    /// A limit of the server is exceeded.
    case tooLarge
    /// The transaction was tried 25 times, and the data changed each time.
    case maxRetries
    /// A plain write of the same client replaced the transaction.
    case overriddenBySet
    /// `purgeOutstandingWrites()` dropped the write or the transaction before the server confirmed
    /// it.
    case writeCanceled
    /// There is no connection, and the data is not known locally.
    case disconnected
    /// The `FirebaseApp` of the database was deleted.
    case appDeleted
    /// The server, or the storage on this machine, cannot do this now.
    case unavailable
    /// The data cannot be decoded as the requested type.
    case decoding
    /// The server or this library failed.
    case internalError
  }

  /// The kind of failure.
  public var code: Code
  /// A sentence that says what is wrong and what to do about it.
  public var sentence: String

  /// Creates an error.
  public init(_ code: Code, _ sentence: String) {
    self.code = code
    self.sentence = sentence
  }
}

extension DatabaseError: LocalizedError, CustomStringConvertible {
  /// The text that `localizedDescription` returns: the words of Firebase's library if it has a
  /// number for the failure, and the sentence.
  public var errorDescription: String? {
    switch code {
    case .permissionDenied: "Permission Denied: \(sentence)"
    case .unavailable: "Service is unavailable: \(sentence)"
    case .writeCanceled: "Write cancelled by user: \(sentence)"
    default: sentence
    }
  }

  /// The code and the sentence.
  public var description: String { "\(code.rawValue): \(sentence)" }
}

extension DatabaseError: CustomNSError {
  /// The domain that Firebase's library uses.
  public static var errorDomain: String { "com.firebase" }

  /// The number that Firebase's library uses: 1, 2, 3 or 9999.
  public var errorCode: Int {
    switch code {
    case .permissionDenied: 1
    case .unavailable: 2
    case .writeCanceled: 3
    default: 9999
    }
  }

  /// The text of `localizedDescription`, and the status word of Firebase's protocol if it has one
  /// as the reason.
  public var errorUserInfo: [String: Any] {
    var info: [String: Any] = [NSLocalizedDescriptionKey: errorDescription ?? sentence]
    info[NSLocalizedFailureReasonErrorKey] = status
    return info
  }

  /// The status word of Firebase's protocol.
  private var status: String? {
    switch code {
    case .permissionDenied: "permission_denied"
    case .unavailable: "unavailable"
    case .writeCanceled: "write_canceled"
    case .maxRetries: "maxretry"
    case .overriddenBySet: "set"
    case .disconnected: "disconnect"
    default: nil
    }
  }
}

extension DatabaseError {
  init(_ error: TreeError) {
    let code: Code =
      switch error {
      case .invalidKey, .invalidPath: .invalidPath
      case .invalidData, .invalidJSON: .invalidData
      case .invalidQuery: .invalidQuery
      case .tooLarge: .tooLarge
      }
    // An offset in the JSON means nothing to a caller that passed a value.
    if case .invalidJSON(let text, _) = error {
      self.init(code, text)
    } else {
      self.init(code, error.sentence)
    }
  }

  init(_ error: WireError) {
    let code: Code =
      switch error.code {
      case .permissionDenied, .unauthenticated: .permissionDenied
      case .invalidPath, .notFound: .invalidPath
      case .invalidData: .invalidData
      case .invalidQuery: .invalidQuery
      case .tooLarge, .quotaExceeded: .tooLarge
      case .rateLimited, .overloaded, .unavailable: .unavailable
      case .badRequest, .unknownVerb, .conflict, .internalError: .internalError
      }
    self.init(code, error.sentence)
  }

  /// Returns the error of an invalid path, or of a value that has an invalid key, with the path that the caller gave.
  func inPath(_ path: String) -> DatabaseError {
    guard code == .invalidPath || code == .invalidData else { return self }
    let shown = String(path.unicodeScalars.prefix(200)).debugDescription
    return DatabaseError(code, "\(sentence), at \(shown)")
  }

  /// Calls `body` and converts its error.
  static func wrap<R>(_ body: () throws(TreeError) -> R) throws(DatabaseError) -> R {
    do throws(TreeError) { return try body() } catch { throw DatabaseError(error) }
  }
}
