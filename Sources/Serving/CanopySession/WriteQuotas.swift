internal import CanopyAccounts
internal import CanopyEngine
public import CanopyTree
internal import CanopyWire
internal import Synchronization

/// The bounds on the writes of users and of remote networks, the same for all protocols and namespaces.
///
/// A write counts once, with the bytes of its paths and values, when it is requested: for the user, and for the remote
/// network. It counts whatever its outcome is, also if the rules deny it. An on-disconnect write counts when it is set. The
/// administrator is exempt, and so is this machine, if the settings say so.
///
/// A network also has a bucket for the bytes by which its writes make the tree larger, which fills in a day. While it is
/// empty, writes of the network that make the tree larger are refused.
///
/// A refused write does not count. Its error names the time to wait, and until then every write of the same user or
/// network is refused. So a client that has sent several writes ahead can send all of them again in their order.
/// `WriteOrder` keeps the order of writes with `ONCE` however long they are under way.
///
/// The buckets are in memory, and those of each node are its own. Safe to use from any thread.
public final class WriteQuotas: Sendable {
  /// The number of users, and of networks, whose buckets are remembered. Each takes about 150 bytes.
  static let ownersMax = 50_000
  /// The shortest wait that an error names, in milliseconds. There is then room for several writes.
  static let waitMin: Int64 = 1_000

  /// A reason to refuse a write, for the metrics.
  enum Reason: String, CaseIterable {
    case user
    case address
    case order
    case growth
  }

  /// The user and the network for which a write counts; nil for those that are exempt.
  struct Owner: Sendable {
    var user: Key?
    var network: String?

    /// Whether no bucket counts the write.
    var isExempt: Bool { user == nil && network == nil }
  }

  fileprivate struct State {
    var users: QuotaBuckets<Key>
    var networks: QuotaBuckets<String>
    /// The bytes added to the tree; nil for no bound.
    var growths: QuotaBuckets<String>?
    var refused: [Reason: Int] = [:]
  }

  private let state: Mutex<State>
  /// Whether users on this machine are exempt.
  private let exemptsThisMachine: Bool
  private let boundsGrowth: Bool
  /// The seconds in which a network may add as much to the tree as at once.
  private static let growthSeconds = 24 * 3_600

  /// Creates full buckets.
  ///
  /// - Parameters:
  ///   - limits: the rates.
  ///   - exemptsThisMachine: whether the writes of users on this machine do not count. A network never counts for this
  ///     machine, because there may be many people behind it.
  ///   - ownersMax: the number of users, and of networks, that are remembered.
  public init(_ limits: Limits, exemptsThisMachine: Bool = true, ownersMax: Int? = nil) {
    self.exemptsThisMachine = exemptsThisMachine
    let ownersMax = ownersMax ?? WriteQuotas.ownersMax
    let perDay = limits.treeBytesPerDayPerAddress
    boundsGrowth = perDay > 0
    state = Mutex(
      State(
        users: QuotaBuckets(
          .init(
            writes: limits.writesPerSecond, bytes: limits.writeBytesPerSecond,
            burstSeconds: limits.writeBurstSeconds), ownersMax: ownersMax),
        networks: QuotaBuckets(
          .init(
            writes: limits.writesPerSecondPerAddress, bytes: limits.writeBytesPerSecondPerAddress,
            burstSeconds: limits.writeBurstSeconds), ownersMax: ownersMax),
        growths: perDay > 0
          ? QuotaBuckets(
            .init(
              writes: .max, bytes: perDay / Self.growthSeconds, burstSeconds: Self.growthSeconds),
            ownersMax: ownersMax) : nil))
  }

  /// The writes that were refused, by reason.
  public var refused: [(reason: String, count: Int)] {
    state.withLock { state in
      Reason.allCases.map { ($0.rawValue, state.refused[$0] ?? 0) }
    }
  }

  /// The numbers of remembered users and networks.
  var counts: (users: Int, networks: Int) {
    state.withLock { ($0.users.count, $0.networks.count) }
  }

  /// Returns the owner of the writes of a caller.
  ///
  /// - Parameters:
  ///   - user: the user; nil without a login.
  ///   - network: the remote network; nil for this machine.
  func owner(user: Key?, network: String?) -> Owner {
    guard network != nil || !exemptsThisMachine else { return Owner() }
    return Owner(user: user, network: network)
  }

  /// Whether the bytes count that a write adds to the tree.
  func countsGrowth(of owner: Owner) -> Bool { boundsGrowth && owner.network != nil }

  /// Counts a write, or returns the error with which it is refused. O(1).
  ///
  /// - Parameters:
  ///   - growth: the bytes that it adds to the tree; 0 or less if it adds none.
  ///   - now: the time in milliseconds since 1970.
  func admit(_ owner: Owner, bytes: Int, growth: Int = 0, now: Int64) -> WireError? {
    guard !owner.isExempt else { return nil }
    return state.withLock { state in
      if let refusal = state.refuse(owner, now: now) { return refusal }
      // Other writes go on meanwhile, so this wait is not kept.
      if growth > 0, let key = owner.network, let wait = state.growths?.wait(key, now: now) {
        return state.refuse(.growth, after: max(wait, Self.waitMin))
      }
      if growth > 0, let key = owner.network {
        state.growths?.charge(key, writes: 0, bytes: growth, now: now)
      }
      if let key = owner.user { state.users.charge(key, bytes: bytes, now: now) }
      if let key = owner.network { state.networks.charge(key, bytes: bytes, now: now) }
      return nil
    }
  }

  /// Returns the error with which any write of an owner is refused now; nil if there is room for one. Counts nothing
  /// else. O(1).
  func refuse(_ owner: Owner, now: Int64) -> WireError? {
    owner.isExempt ? nil : state.withLock { $0.refuse(owner, now: now) }
  }

  /// Counts further bytes of a write that was admitted.
  func charge(_ owner: Owner, bytes: Int, now: Int64) {
    guard bytes > 0, !owner.isExempt else { return }
    state.withLock { state in
      if let key = owner.user { state.users.charge(key, writes: 0, bytes: bytes, now: now) }
      if let key = owner.network { state.networks.charge(key, writes: 0, bytes: bytes, now: now) }
    }
  }

  /// Counts further bytes that an admitted write adds to the tree.
  func charge(_ owner: Owner, growth: Int, now: Int64) {
    guard growth > 0, let key = owner.network else { return }
    state.withLock { $0.growths?.charge(key, writes: 0, bytes: growth, now: now) }
  }

  /// Returns the error for a write that would overtake a refused one of its client. Until the quotas have room, it names
  /// their time to wait.
  func refuseForOrder(_ owner: Owner, now: Int64) -> WireError {
    state.withLock { state in
      (owner.isExempt ? nil : state.refuse(owner, now: now))
        ?? state.refuse(.order, after: Self.waitMin)
    }
  }
}

extension WriteQuotas.State {
  /// Returns the error with which any write of an owner is refused now; nil if its buckets have room for one.
  mutating func refuse(_ owner: WriteQuotas.Owner, now: Int64) -> WireError? {
    let waitMin = WriteQuotas.waitMin
    let user = owner.user.flatMap { users.refuse($0, waitMin: waitMin, now: now) } ?? 0
    let network = owner.network.flatMap { networks.refuse($0, waitMin: waitMin, now: now) } ?? 0
    guard user == 0, network == 0 else {
      return refuse(user >= network ? .user : .address, after: max(user, network))
    }
    return nil
  }

  /// Returns the error of a refusal, and counts it.
  mutating func refuse(_ reason: WriteQuotas.Reason, after wait: Int64) -> WireError {
    refused[reason, default: 0] += 1
    let sentence =
      switch reason {
      case .user: "you write more than this server takes from a user"
      case .address: "more is written from your address than this server takes from an address"
      case .order: "an earlier write of this client was refused; send it again first"
      case .growth:
        "your address has added as many bytes as this server takes from an address in a day, and this write adds some"
      }
    return WireError(
      .rateLimited, retryMilliseconds: wait, "\(sentence); try again in \(WireError.words(wait))")
  }
}
