import CanopyWire
import Testing

@testable import CanopyClient

/// The codes of failed requests about accounts, with the reason of the server and without.
struct AuthErrorTests {
  private static let logIn = SessionRequest.Kind.logIn(email: "a@x", password: "p")
  private static let confirm = SessionRequest.Kind.confirm(email: "a@x", password: "p")
  private static let password = SessionRequest.Kind.password(current: "p", new: "q")
  private static let verify = SessionRequest.Kind.verifyEmail(code: "c")
  private static let signUp = SessionRequest.Kind.signUp(email: "a@x", password: "p", username: "a")

  private static let codes: [WireError.Reason: AuthErrorCode] = [
    .invalidEmail: .invalidEmail, .missingEmail: .missingEmail, .invalidPassword: .weakPassword,
    .wrongCredentials: .wrongPassword, .sessionEnded: .userTokenExpired,
    .invalidCustomToken: .invalidCustomToken, .invalidCode: .invalidActionCode,
    .expiredCode: .expiredActionCode, .taken: .emailAlreadyInUse, .otherAccount: .userMismatch,
    .noAccount: .userNotFound, .accountDisabled: .userDisabled,
    .loginTooOld: .requiresRecentLogin, .notOffered: .operationNotAllowed,
  ]

  @Test(arguments: WireError.Reason.allCases)
  func `a reason decides, and neither the words of the sentence nor the request do`(
    _ reason: WireError.Reason
  ) throws {
    let expected = try #require(Self.codes[reason])
    let sentence = "the e-mail password is wrong and has expired"
    for kind in [Self.logIn, Self.confirm, Self.password, Self.verify, Self.signUp, .delete] {
      for code in WireError.Code.allCases {
        let error = AuthError(WireError(code, reason: reason, sentence), of: kind)
        #expect(error == AuthError(expected, sentence))
      }
    }
  }

  @Test func `a session token that the server refuses is invalid, and a session in use has ended`()
  {
    let error = WireError(.unauthenticated, reason: .sessionEnded, "log in again")
    #expect(AuthError(error, of: .token("t")).code == .invalidUserToken)
    #expect(AuthError(error, of: Self.password).code == .userTokenExpired)
  }

  @Test(arguments: [
    (WireError.Code.unauthenticated, "x", Self.logIn, AuthErrorCode.wrongPassword),
    (.unauthenticated, "x", .token("t"), .invalidUserToken),
    (.unauthenticated, "x", .customToken("t"), .invalidCustomToken),
    (.unauthenticated, "the code has expired", Self.verify, .expiredActionCode),
    (.unauthenticated, "the code is not valid", Self.verify, .invalidActionCode),
    (.unauthenticated, "the password is wrong", Self.confirm, .wrongPassword),
    (.unauthenticated, "log in first", Self.confirm, .userTokenExpired),
    (.unauthenticated, "log in first", .delete, .userTokenExpired),
    (.conflict, "x", Self.signUp, .emailAlreadyInUse),
    (.conflict, "x", Self.confirm, .userMismatch),
    (.permissionDenied, "x", .delete, .requiresRecentLogin),
    (.permissionDenied, "x", Self.logIn, .userDisabled),
    (.invalidData, "the account has no e-mail address", .sendVerification, .missingEmail),
    (.invalidData, "that password is too short", Self.signUp, .weakPassword),
    (.invalidData, "that is not an e-mail address", Self.signUp, .invalidEmail),
    (.invalidData, "the user name is too long", Self.signUp, .invalidArgument),
    (.unknownVerb, "x", .delete, .operationNotAllowed),
    (.notFound, "x", .delete, .operationNotAllowed),
    (.notFound, "x", .rename("a"), .invalidArgument), (.tooLarge, "x", .delete, .invalidArgument),
    (.rateLimited, "x", .delete, .tooManyRequests), (.overloaded, "x", .delete, .internalError),
    (.unavailable, "x", .delete, .internalError),
  ])
  func `without a reason the code and the words decide, as for a server that gives none`(
    _ code: WireError.Code, _ sentence: String, _ kind: SessionRequest.Kind,
    _ expected: AuthErrorCode
  ) {
    #expect(AuthError(WireError(code, sentence), of: kind) == AuthError(expected, sentence))
  }
}
