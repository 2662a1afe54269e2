public import CanopyWire

/// The words of the protocol for the outcome of a request.
public enum RealtimeStatus: String, CaseIterable, Sendable {
  /// The request succeeded.
  case ok
  /// The rules do not allow it.
  case permissionDenied = "permission_denied"
  /// The value has changed since the client computed the new one.
  case dataStale = "datastale"
  /// The token is not valid.
  case invalidToken = "invalid_token"
  /// The token was valid.
  case expiredToken = "expired_token"
  /// The request failed.
  case failure
  /// The request is malformed.
  case invalidParameters = "invalid_parameters"
  /// The value changes faster than it can be compared.
  case maxRetries = "maxretries"
  /// The server cannot do it now.
  case unavailable
  /// A limit is exceeded.
  case tooBig = "too_big"

  /// Creates the word for an error.
  public init(_ code: WireError.Code) {
    switch code {
    case .badRequest, .unknownVerb, .invalidPath, .invalidData, .invalidQuery:
      self = .invalidParameters
    case .unauthenticated: self = .invalidToken
    case .permissionDenied: self = .permissionDenied
    case .conflict: self = .maxRetries
    case .tooLarge, .quotaExceeded: self = .tooBig
    case .rateLimited, .overloaded, .unavailable: self = .unavailable
    case .notFound, .internalError: self = .failure
    }
  }
}
