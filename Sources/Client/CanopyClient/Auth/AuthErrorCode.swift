/// The domain of an ``AuthError`` as an `NSError`.
public let AuthErrorDomain = "FIRAuthErrorDomain"

/// The key of the name of the code, such as `ERROR_WRONG_PASSWORD`, in the user info of an
/// ``AuthError`` as an `NSError`.
public let AuthErrorUserInfoNameKey = "FIRAuthErrorUserInfoNameKey"

/// The names of an ``AuthError`` as an `NSError`.
public enum AuthErrors {
  /// The domain.
  public static let domain = AuthErrorDomain
}

/// The kinds of failure of an operation on accounts and sessions, with the names and numbers of
/// Firebase's library, so that a `switch` moves over.
///
/// The library reports the first ones alone. The others exist so that code that names them compiles.
public enum AuthErrorCode: Int, Sendable, CaseIterable {
  /// The same type, for code that names the codes so.
  public typealias Code = AuthErrorCode

  /// The custom token is invalid or has expired.
  case invalidCustomToken = 17000
  /// The account has been disabled.
  case userDisabled = 17005
  /// The server does not offer the operation.
  case operationNotAllowed = 17006
  /// The e-mail address or the user name is taken; the error does not reveal which.
  case emailAlreadyInUse = 17007
  /// The e-mail address is invalid.
  case invalidEmail = 17008
  /// The e-mail address or the password is wrong; the error does not reveal which.
  case wrongPassword = 17009
  /// Too many attempts; the sentence says how long to wait.
  case tooManyRequests = 17010
  /// The account does not exist any more.
  case userNotFound = 17011
  /// The last sign-in is too long ago for this operation; `User.reauthenticate(with:)` helps.
  case requiresRecentLogin = 17014
  /// The user has an e-mail address already.
  case providerAlreadyLinked = 17015
  /// The token is invalid or has expired.
  case invalidUserToken = 17017
  /// The server did not respond in time, the connection was lost, or the URL is not that of a
  /// server.
  case networkError = 17020
  /// The server has ended the session: it has expired, or the password has changed.
  case userTokenExpired = 17021
  /// The credential, or the operation, is that of another user than the one who is signed in.
  case userMismatch = 17024
  /// The password is too short, too long or too common.
  case weakPassword = 17026
  /// The code for a new password or an e-mail address has expired.
  case expiredActionCode = 17029
  /// The code for a new password or an e-mail address is invalid, or has been used.
  case invalidActionCode = 17030
  /// The operation needs an e-mail address.
  case missingEmail = 17034
  /// There is no signed-in user.
  case nullUser = 17067
  /// The user name or another argument is invalid. Canopy's own addition.
  case invalidArgument = 17900
  /// The server cannot do this now, or it failed.
  case internalError = 17999

  // Never reported by this library.
  case customTokenMismatch = 17002
  case invalidCredential = 17004
  case accountExistsWithDifferentCredential = 17012
  case noSuchProvider = 17016
  case invalidAPIKey = 17023
  case credentialAlreadyInUse = 17025
  case appNotAuthorized = 17028
  case invalidMessagePayload = 17031
  case invalidSender = 17032
  case invalidRecipientEmail = 17033
  case missingIosBundleID = 17036
  case missingAndroidPackageName = 17037
  case unauthorizedDomain = 17038
  case invalidContinueURI = 17039
  case missingContinueURI = 17040
  case missingPhoneNumber = 17041
  case invalidPhoneNumber = 17042
  case missingVerificationCode = 17043
  case invalidVerificationCode = 17044
  case missingVerificationID = 17045
  case invalidVerificationID = 17046
  case missingAppCredential = 17047
  case invalidAppCredential = 17048
  case sessionExpired = 17051
  case quotaExceeded = 17052
  case missingAppToken = 17053
  case notificationNotForwarded = 17054
  case appNotVerified = 17055
  case captchaCheckFailed = 17056
  case webContextAlreadyPresented = 17057
  case webContextCancelled = 17058
  case appVerificationUserInteractionFailure = 17059
  case invalidClientID = 17060
  case webNetworkRequestFailed = 17061
  case webInternalError = 17062
  case webSignInUserInteractionFailure = 17063
  case localPlayerNotAuthenticated = 17066
  case dynamicLinkNotActivated = 17068
  case invalidProviderID = 17071
  case tenantIDMismatch = 17072
  case unsupportedTenantOperation = 17073
  case invalidDynamicLinkDomain = 17074
  case rejectedCredential = 17075
  case gameKitNotLinked = 17076
  case secondFactorRequired = 17078
  case missingMultiFactorSession = 17081
  case missingMultiFactorInfo = 17082
  case invalidMultiFactorSession = 17083
  case multiFactorInfoNotFound = 17084
  case adminRestrictedOperation = 17085
  case unverifiedEmail = 17086
  case secondFactorAlreadyEnrolled = 17087
  case maximumSecondFactorCountExceeded = 17088
  case unsupportedFirstFactor = 17089
  case emailChangeNeedsVerification = 17090
  case missingOrInvalidNonce = 17094
  case blockingCloudFunctionError = 17105
  case missingClientIdentifier = 17993
  case keychainError = 17995
  case malformedJWT = 18000

  /// The token is invalid or has expired.
  public static var invalidToken: AuthErrorCode { .invalidUserToken }
  /// There is no signed-in user.
  public static var noCurrentUser: AuthErrorCode { .nullUser }

  /// The name in an `NSError`; nil for a code that this library never reports, and for its own.
  var name: String? {
    switch self {
    case .invalidCustomToken: "ERROR_INVALID_CUSTOM_TOKEN"
    case .userDisabled: "ERROR_USER_DISABLED"
    case .operationNotAllowed: "ERROR_OPERATION_NOT_ALLOWED"
    case .requiresRecentLogin: "ERROR_REQUIRES_RECENT_LOGIN"
    case .providerAlreadyLinked: "ERROR_PROVIDER_ALREADY_LINKED"
    case .userNotFound: "ERROR_USER_NOT_FOUND"
    case .userTokenExpired: "ERROR_USER_TOKEN_EXPIRED"
    case .userMismatch: "ERROR_USER_MISMATCH"
    case .expiredActionCode: "ERROR_EXPIRED_ACTION_CODE"
    case .invalidActionCode: "ERROR_INVALID_ACTION_CODE"
    case .missingEmail: "ERROR_MISSING_EMAIL"
    case .emailAlreadyInUse: "ERROR_EMAIL_ALREADY_IN_USE"
    case .invalidEmail: "ERROR_INVALID_EMAIL"
    case .wrongPassword: "ERROR_WRONG_PASSWORD"
    case .tooManyRequests: "ERROR_TOO_MANY_REQUESTS"
    case .invalidUserToken: "ERROR_INVALID_USER_TOKEN"
    case .networkError: "ERROR_NETWORK_REQUEST_FAILED"
    case .weakPassword: "ERROR_WEAK_PASSWORD"
    case .nullUser: "ERROR_NULL_USER"
    case .internalError: "ERROR_INTERNAL_ERROR"
    default: nil
    }
  }
}
