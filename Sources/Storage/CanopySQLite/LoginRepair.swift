internal import CanopyAccounts
internal import GRDB

/// The end of logins after a repair of accounts, sessions or codes.
///
/// A lost row or change may have ended a login: it removed a session, moved the time from which logins count, or deleted
/// an account. Or it limited a session or an account by claims. It is not known which logins that were. So all of them
/// end, and users log in again.
///
/// An altered row of a session or a code ends only itself. Such a row only allows a login, so no other one counts without
/// it.
struct LoginRepair {
  let db: Database
  /// The time in milliseconds since 1970.
  let now: Int64

  /// Ends the logins that may have ended before. Returns a description of the loss.
  ///
  /// - Parameters:
  ///   - tables: the repair of the tables, which must have ended.
  ///   - hasLostChanges: whether changes of any of these tables are lost.
  ///   - meta: gets the time from which logins of new accounts count.
  func run(
    after tables: TableRepair, hasLostChanges: Bool, _ meta: inout Meta
  ) throws -> [String] {
    func isInDoubt(_ table: SealedTable) -> Bool {
      hasLostChanges || tables.stale.contains(table)
        || table.limitsLogins && tables.altered.contains(table)
    }
    if isInDoubt(.accounts) || isInDoubt(.deletedAccounts) {
      // A new account with the uid of a lost or deleted one must not accept its tokens.
      meta.noteDeletedLogin(now / 1_000)
      try SQLiteStore.noteDeletion(
        db, of: DeletedAccount.anyUID, endOfLogins: (meta.deletedLogin ?? 0) + 1, at: now)
    }
    let ending: [SealedTable] = [
      .accounts, .tokens, .accountDetails, .customSessions, .accountCodes,
    ]
    guard ending.contains(where: isInDoubt) else { return [] }
    try SQLiteStore.endAllLogins(db, at: now)
    return [
      "all sessions, identity tokens and codes of e-mails, because it is not known which of them had ended"
    ]
  }
}

extension SealedTable {
  /// Whether a row can end or limit logins, so that without the row more is allowed.
  fileprivate var limitsLogins: Bool {
    switch self {
    case .accounts, .accountDetails, .customSessions, .deletedAccounts: true
    default: false
    }
  }
}
