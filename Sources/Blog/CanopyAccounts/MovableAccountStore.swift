/// An account that was deleted, and the end of its logins.
public struct DeletedAccount: Sendable, Equatable {
  /// The uid of a record that counts for each uid. No account has it. A repair adds this record if those of deleted
  /// accounts may be lost.
  public static let anyUID = ""

  /// The uid.
  public let uid: String
  /// The time at which its logins have ended, in seconds since 1970.
  public let endOfLogins: Int64
  /// The time of the deletion, in milliseconds since 1970.
  public let deletedAt: Int64

  /// Creates a record with the given fields.
  public init(uid: String, endOfLogins: Int64, deletedAt: Int64) {
    self.uid = uid
    self.endOfLogins = endOfLogins
    self.deletedAt = deletedAt
  }
}

/// An account store whose contents can be moved to another one: the operations that only a move needs.
public protocol MovableAccountStore: AccountStore {
  /// Returns all codes of an account, in any order.
  func codes(uid: String) async throws -> [CodeRecord]

  /// Returns at most `limit` deleted accounts whose uid comes after `after`, or from the first one if it is nil. Ascending
  /// by the bytes of the uid.
  func deletedAccounts(after: String?, limit: Int) async throws -> [DeletedAccount]

  /// Returns the latest login of all deleted accounts, in seconds since 1970; nil if none was deleted.
  func latestDeletedLogin() async throws -> Int64?

  /// Adds deleted accounts, and raises the latest login of deleted accounts.
  ///
  /// - Parameter login: the latest login; nil to leave it.
  func insertDeleted(_ accounts: [DeletedAccount], latestLogin login: Int64?) async throws
}
