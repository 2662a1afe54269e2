internal import CanopyAccounts
internal import CanopyEngine
internal import CanopySocial
internal import CanopyTree
internal import CanopyWire

/// The deletion of accounts, by their users and by the administrator.
extension Operations {
  /// Deletes an account. On request, everything that its user has added to the blog is removed in steps after the reply.
  ///
  /// The removal is noted before the account is deleted. If the server stops in between, the next start deletes the account
  /// too. A user whose account is gone already, and whose posts stayed, can be removed in the same way.
  ///
  /// - Parameter pendingMax: the maximum number of users whose data is being removed; nil for the administrator.
  /// - Throws: `AccountError.notFound`; `UncertainChange`; if `withPosts` is true, `WireError` if the rules are not the
  ///   built-in ones, and `SocialError.overloaded`.
  func deleteAccount(_ uid: Key, withPosts: Bool, pendingMax: Int?) async throws {
    let home = home ?? self
    if withPosts {
      _ = try await home.engine.transact { [rules = home.rules] proposal in
        guard rules.current.isAboutBlog else { throw Operations.noErasure }
        return try Erasure.begin(of: uid, pendingMax: pendingMax, in: &proposal)
      }
    }
    // The runner deletes the account if this fails.
    defer { if withPosts { home.unfinishedWork.wake() } }
    do {
      try await revokingIfUncertain { try await accounts.deleteAccount(uid: uid.text) }
    } catch AccountError.notFound where withPosts {
      // The account was deleted before, or the runner has just deleted it.
    }
    await reauthorize(sessions.revokeAll(uid))
  }

  private static let noErasure = WireError(
    .badRequest,
    "posts are removed only while the built-in rules are in force; delete the account alone, and remove the data by hand"
  )

  /// Deletes an account that the administrator names.
  func deleteUser(_ reference: AccountReference, withPosts: Bool) async throws -> Reply {
    let uid = try Key(try await uidToDelete(reference, withPosts: withPosts))
    try await deleteAccount(uid, withPosts: withPosts, pendingMax: nil)
    return .json(["uid": .text(uid.text), "erasing": .bool(withPosts)])
  }

  /// Returns the uid of an account, or of a profile that is left of one.
  private func uidToDelete(
    _ reference: AccountReference, withPosts: Bool
  ) async throws -> String {
    do {
      return try await account(reference).uid
    } catch AccountError.notFound where withPosts {
      switch reference {
      case .username(let name): return try Users.find(username: name, in: profiles).text
      case .uid(let text), .address(let text): return try Users.find(uid: text, in: profiles).text
      }
    }
  }
}
