import CanopyAccounts
import CanopyEngine
import CanopyTesting
import Dispatch
import GRDB
import Testing

@testable import CanopySQLite

/// The turns of transactions that change accounts.
struct AccountTurnTests {
  @Test func `an append waits for at most one change of an account, however many wait`()
    async throws
  {
    let folder = try Folder()
    try await folder.withStore { store in
      let release = DispatchSemaphore(value: 0)
      // The writing connection is busy.
      store.pool.asyncWriteWithoutTransaction { _ in release.wait() }
      let changes = (0..<100).map { number in
        Task {
          try await store.insert(
            Account(
              uid: "u\(number)", email: "", emailNormalized: "uid:u\(number)", username: "",
              passwordHash: "", createdAt: 5))
        }
      }
      try await eventually { store.accountTurns.waiting == 99 }
      // As an append does: it comes to the same queue after those that wait.
      async let made = withCheckedContinuation { continuation in
        store.pool.asyncWriteWithoutTransaction { db in
          continuation.resume(
            returning: try? Int.fetchOne(db, sql: "SELECT count(*) FROM accounts"))
        }
        release.signal()
      }
      #expect(await made ?? 100 <= 1)
      for change in changes { #expect(try await change.value) }
      #expect(try await store.accounts(after: nil, limit: 200).count == 100)
    }
  }
}
