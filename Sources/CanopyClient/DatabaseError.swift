internal import CanopyTree
internal import CanopyWire

/// Why the database did not do what it was asked to: a code for programs and one sentence for people.
public struct DatabaseError: Error, Equatable, Sendable {
  /// The kinds of failure.
  public enum Code: String, Sendable, CaseIterable {
    /// A path or a key that is none.
    case invalidPath
    /// A value that the tree does not take.
    case invalidData
    /// The parts of a query do not fit together.
    case invalidQuery
    /// A URL that is none of a Canopy server.
    case invalidURL
    /// The security rules do not allow it.
    case permissionDenied
    /// It exceeds a bound of the server.
    case tooLarge
    /// A transaction was tried 25 times, and each time the data had changed.
    case maxRetries
    /// A transaction was overtaken by a plain write of the same client, or was dropped with
    /// `purgeOutstandingWrites()`.
    case overriddenBySet
    /// The write was dropped with `purgeOutstandingWrites()` before the server had it.
    case writeCanceled
    /// There is no connection, and nothing is known locally.
    case disconnected
    /// The server, or the storage on this machine, cannot do it now.
    case unavailable
    /// The data are not what the application wanted to decode them as.
    case decoding
    /// The server or this library is at fault.
    case internalError
  }

  /// What kind of failure it is.
  public var code: Code
  /// What is wrong and what to do about it.
  public var sentence: String

  /// An error.
  public init(_ code: Code, _ sentence: String) {
    self.code = code
    self.sentence = sentence
  }
}

extension DatabaseError: LocalizedError, CustomStringConvertible {
  /// The sentence: what `localizedDescription` has.
  public var errorDescription: String? { sentence }

  /// The code and the sentence.
  public var description: String { "\(code.rawValue): \(sentence)" }
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
    // Where the text of a value goes wrong means nothing to those who handed over a value.
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
      case .tooLarge: .tooLarge
      case .rateLimited, .overloaded, .unavailable: .unavailable
      case .badRequest, .unknownVerb, .conflict, .internalError: .internalError
      }
    self.init(code, error.sentence)
  }

  /// What `body` returns, with its error made one of the database.
  static func wrap<R>(_ body: () throws(TreeError) -> R) throws(DatabaseError) -> R {
    do throws(TreeError) { return try body() } catch { throw DatabaseError(error) }
  }
}
