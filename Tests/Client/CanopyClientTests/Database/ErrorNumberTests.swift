import CanopyClient
import Foundation
import Testing

/// Errors as `NSError`s, with the domains and the numbers that code for Firebase compares.
@Suite(.timeLimit(.minutes(20))) struct ErrorNumberTests {
  @Test func `a refused write has the number 1`() async throws {
    try await withBackend { backend in
      let database = try backend.anonymousClient()
      let numbers = Received<String>()
      database.reference(withPath: "secret").setValue(1) { error, _ in
        let error = error.map { $0 as NSError }
        numbers.add("\(error?.domain ?? "") \(error?.code ?? 0)")
        numbers.add(error?.localizedDescription ?? "")
      }
      await numbers.wait(for: 2)
      #expect(numbers.values.first == "com.firebase 1")
      #expect(numbers.values.last?.hasPrefix("Permission Denied") == true)
    }
  }

  @Test func `each failure of the database has its number`() {
    let known: [DatabaseError.Code: Int] = [
      .permissionDenied: 1, .unavailable: 2, .writeCanceled: 3,
    ]
    for code in DatabaseError.Code.allCases {
      let error = DatabaseError(code, "the sentence") as NSError
      #expect(error.code == known[code] ?? 9999)
      #expect(error.domain == "com.firebase")
      #expect(error.localizedDescription.hasSuffix("the sentence"))
    }
    let error = DatabaseError(.maxRetries, "") as NSError
    #expect(error.userInfo[NSLocalizedFailureReasonErrorKey] as? String == "maxretry")
  }

  @Test func `a switch on the codes of Auth finds the failures of this library`() async throws {
    try await withBackend { backend in
      let auth = Auth.auth(database: try backend.anonymousClient())
      func number(_ body: () async throws -> AuthDataResult) async -> AuthErrorCode? {
        do {
          _ = try await body()
          return nil
        } catch {
          let error = error as NSError
          return error.domain == AuthErrorDomain ? AuthErrorCode(rawValue: error.code) : nil
        }
      }
      let (email, password) = ("ada@example.org", "secret words of ada")
      #expect(
        await number { try await auth.createUser(withEmail: "x", password: password) }
          == .invalidEmail)
      #expect(
        await number { try await auth.createUser(withEmail: email, password: "x") }
          == .weakPassword)
      #expect(
        await number {
          try await auth.createUser(withEmail: email, password: password, username: "no spaces")
        } == .invalidArgument)
      #expect(
        await number { try await auth.createUser(withEmail: email, password: password) } == nil)
      #expect(
        await number { try await auth.createUser(withEmail: email, password: password) }
          == .emailAlreadyInUse)
      #expect(
        await number { try await auth.signIn(withEmail: email, password: "other words") }
          == .wrongPassword)
      #expect(await number { try await auth.signIn(withToken: "nonsense") } == .invalidUserToken)
      let error = AuthError(.networkError, "no") as NSError
      #expect(error.code == 17020)
      #expect(error.userInfo[AuthErrorUserInfoNameKey] as? String == "ERROR_NETWORK_REQUEST_FAILED")
    }
  }

  @Test func `a purged transaction is a cancelled write`() async throws {
    try await withBackend { backend in
      let database = try await backend.client()
      database.goOffline()
      let codes = Received<Int>()
      let began = Received<Bool>()
      database.reference(withPath: "n").runTransactionBlock(
        { data in
          began.add(true)
          data.value = 1
          return .success(withValue: data)
        }, andCompletionBlock: { error, _, _ in codes.add(error.map { ($0 as NSError).code } ?? 0) }
      )
      await began.wait(for: 1)
      database.purgeOutstandingWrites()
      #expect(await codes.wait(for: 1) == [3])
    }
  }
}
