import CanopyAccounts
import CanopyEngine
import CanopyTesting
import CanopyTree

@testable import CanopySQLite

/// All data that a server reads from a folder.
struct StoredContents: Equatable {
  var root: Node
  var sequence: Int64
  var accounts: [Account]
  var byAddress: [Account?] = []
  var tokens: [TokenRecord?] = []
  var disconnectWrites: [DisconnectWrite]
  var clientWrites: [ClientWrite]
  var commits: [Commit]
  var lastTime: Int64?

  /// Reads a folder, and looks up some accounts and tokens one by one.
  init(_ store: SQLiteStore, _ addresses: [String], tokens digests: [TokenDigest] = [])
    async throws
  {
    let state = try await store.load()
    root = state.tree.root
    sequence = state.sequence
    clientWrites = state.clientWrites
    lastTime = state.lastTime
    accounts = try await store.accounts(after: nil, limit: 10_000)
    disconnectWrites = try await store.disconnectWrites()
    commits = try await store.wholeHistory()
    for address in addresses { byAddress.append(try await store.account(emailNormalized: address)) }
    for digest in digests { tokens.append(try await store.token(digest)?.token) }
  }
}
