/// The networks from which accounts have logged in with their passwords lately.
///
/// A login from such a network does not wait for the failures of strangers on other networks, and has a place among the
/// waiting hashes when strangers have taken all. So a flood of guesses does not lock the users out who are at their usual
/// places.
///
/// A value type, for use under a lock. O(`knownNetworksMax`) for each operation. The number of accounts, and that of the
/// networks of each, is bounded. An entry exists only for an account whose password the caller knew. It is in memory: after
/// a restart all networks are new.
struct KnownNetworks: Sendable {
  private struct Entry: Sendable {
    let network: RemoteNetwork
    let time: Int64
  }

  private let networksMax: Int
  private let lifetime: Int64
  /// The networks of each account, the latest login first, by the bytes of the normalized e-mail address.
  private var accounts: RecencyTable<[UInt8], [Entry]>

  init(settings: AccountSettings) {
    networksMax = max(1, settings.knownNetworksMax)
    lifetime = settings.knownNetworkMilliseconds
    accounts = RecencyTable(capacity: settings.knownAccountsMax)
  }

  /// Notes a login with the right password.
  ///
  /// - Parameter now: the time in milliseconds since 1970.
  mutating func note(_ network: RemoteNetwork, of account: [UInt8], now: Int64) {
    let others = (accounts[account] ?? []).filter { $0.network != network }
    accounts.set(
      [Entry(network: network, time: now)] + others.prefix(networksMax - 1), for: account)
  }

  /// Whether the account has logged in from the network within the lifetime. If the clock was set back, it has.
  func contains(_ network: RemoteNetwork, of account: [UInt8], now: Int64) -> Bool {
    accounts[account]?.contains {
      $0.network == network && now.subtractingSaturated($0.time) < lifetime
    } ?? false
  }
}
