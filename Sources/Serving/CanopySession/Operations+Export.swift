internal import CanopyAccounts
internal import CanopyEngine
internal import CanopySocial
internal import CanopyTree
internal import CanopyWire

/// The export of a user's data.
extension Operations {
  /// Returns a page of everything that the server has about a user. The blog is in the default namespace.
  func export(
    _ page: ExportPage, of uid: Key, from network: RemoteNetwork
  ) async throws -> Reply {
    let engine = (home ?? self).engine
    let export = try await UserExport(
      page, of: uid, accounts: accounts, username: { Users.username(of: uid, in: engine.root) },
      contributions: { position in
        // With the tree at the turn: a call that waits must not hold a version.
        try await beside(turns(of: network)) {
          Contributions(of: uid, from: position, limit: page.limit, in: engine.root)
        }
      })
    return try bounded(export.json, "ask for fewer entries")
  }
}
