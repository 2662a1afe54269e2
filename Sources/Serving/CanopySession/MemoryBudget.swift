internal import CanopyTree
internal import Synchronization

/// The bytes that all connections together may make the server hold.
///
/// Each connection reports the total of its `Ledger`. When the sum exceeds the bound, the budget ends the largest
/// connection of the remote network whose connections together hold the most, then the next, until the others fit (see
/// `LargestFirst`). So a network that opens many connections gets no more memory by that, and clients that hold less
/// than others are still served. A connection without a network counts as one of its own. Connections that hold little
/// are chosen only if all of them together exceed the bound. Then the budget ends as many as make a sixteenth of it
/// free, so that many clients who each hold little cannot keep the server short of memory.
///
/// A connection may report the bytes among them that it takes while it is idle. These do not count when a connection is
/// chosen, so idle connections are not the first to end. When they fill half of the bound, a new connection takes the
/// place of an idle one, or is refused. So the other bytes always have the other half.
///
/// A connection that is gone keeps its share while requests of it are under way. So clients cannot fill the engine's
/// queue by connecting again and again: when the bound is reached, the server accepts no new connections until the
/// writes are complete. Everything else for which a request waits ends with its connection, so ending the connection
/// frees it.
///
/// Safe to use from any thread. A report that changes less than `reportBytes` costs no lock.
public final class MemoryBudget: Sendable {
  /// The change of a total below which it is not reported.
  public static let reportBytes = 4 * 1024
  /// The bytes, besides those of an idle connection, below which a connection ends only if it and others that hold as
  /// little exceed the bound together.
  static let largeBytes = 16 * 1024

  /// The bound in bytes.
  public let bytesMax: Int
  /// The lines of the log about the connections that end.
  public let lines: EndedConnectionLines
  private let state = Mutex(State())

  /// The bytes of a connection.
  struct Amount {
    var bytes = 0
    /// The bytes among them that it takes while it is idle.
    var idle = 0

    /// The bytes that count when a connection is chosen to end.
    var excess: Int { bytes - idle }
    var isLarge: Bool { excess >= MemoryBudget.largeBytes }
  }

  struct Candidate {
    var amount: Amount
    let network: String?
    let end: @Sendable () -> Void
  }

  fileprivate struct State {
    var used = 0 {
      didSet { peak = max(peak, used) }
    }
    /// The most bytes that were charged since a release of them was noted.
    var peak = 0
    /// The bytes among them that connections take while they are idle.
    var idle = 0
    var lastID = 0
    /// The bytes among them that no open connection holds: those of connections that are gone, and charges.
    var unowned = 0
    /// The connections that may be chosen at any time.
    var large: [Int: Candidate] = [:]
    /// The others that hold more than while they are idle.
    var small: [Int: Candidate] = [:]
    /// The connections that are ending and still hold bytes.
    var ending: [Int: Int] = [:]
    /// Their bytes, and the charges of connections that have ended, which are released soon.
    var endingBytes = 0
  }

  /// Creates a budget.
  ///
  /// - Parameters:
  ///   - bytesMax: the bound in bytes; at least 1 MiB is used.
  ///   - lines: the lines of the log about the connections that end.
  public init(bytesMax: Int, lines: EndedConnectionLines = EndedConnectionLines()) {
    self.bytesMax = max(bytesMax, 1024 * 1024)
    self.lines = lines
  }

  /// The bytes that are charged at present.
  public var used: Int { state.withLock { $0.used } }

  /// Whether connections have released at least some bytes since the last call that returned true. Their total may still
  /// fall; then a later call returns true again.
  public func takeRelease(of bytesMin: Int) -> Bool {
    state.withLock { state in
      guard state.peak - state.used >= bytesMin else { return false }
      state.peak = state.used
      return true
    }
  }

  /// A lack of memory for new connections.
  public enum Shortage: Sendable, Equatable {
    /// Requests and replies fill the bound. No connection may be accepted.
    case work
    /// Idle connections fill half of the bound, and hold so many bytes more. A connection may be accepted in the place
    /// of idle ones.
    case idle(excess: Int)
  }

  /// The lack of memory for new connections; nil if there is enough.
  public var shortage: Shortage? {
    state.withLock { state in
      let held = state.used - state.endingBytes
      if held >= bytesMax, held - state.idle >= bytesMax / 2 { return .work }
      let excess = state.idle - bytesMax / 2
      return excess >= 0 ? .idle(excess: excess) : nil
    }
  }

  /// Whether the bound is reached, so that the server must not accept a connection besides the others.
  public var isExhausted: Bool { shortage != nil }

  /// Whether more bytes are charged than the bound, so that no connection must be read that sends much: connections end
  /// then, or have ended and are not yet gone.
  public var isShort: Bool { state.withLock { $0.used > bytesMax } }

  /// Opens the share of one connection.
  ///
  /// - Parameters:
  ///   - network: the remote network; nil for a connection that counts as a network of its own.
  ///   - end: ends the connection, because the budget has chosen it. Called at most once, on any thread, with no lock
  ///     held.
  public func open(network: String? = nil, end: @escaping @Sendable () -> Void) -> Share {
    let id = state.withLock { state in
      state.lastID += 1
      return state.lastID
    }
    return Share(self, id: id, network: network, end: end)
  }

  /// Charges bytes that no connection holds any more until the result is released.
  ///
  /// - Parameter areEnding: whether they are released soon, so that no connection ends because of them.
  package func charge(_ bytes: Int, areEnding: Bool = false) -> Charge {
    Charge(self, bytes, areEnding: areEnding)
  }

  /// Bytes that are charged as long as this object exists.
  package final class Charge: Sendable {
    private let budget: MemoryBudget
    private let bytes: Int
    private let areEnding: Bool

    fileprivate init(_ budget: MemoryBudget, _ bytes: Int, areEnding: Bool) {
      (self.budget, self.bytes, self.areEnding) = (budget, bytes, areEnding)
      add(bytes)
    }

    deinit { add(-bytes) }

    private func add(_ bytes: Int) {
      budget.state.withLock { state in
        state.used += bytes
        if areEnding { state.endingBytes += bytes } else { state.unowned += bytes }
      }
    }
  }

  /// The bytes of one connection. Not thread-safe: use it on the connection's event loop only.
  public struct Share: ~Copyable {
    private let budget: MemoryBudget
    private let id: Int
    private let network: String?
    private let end: @Sendable () -> Void
    private var reported = Amount()
    private var isGone = false

    fileprivate init(
      _ budget: MemoryBudget, id: Int, network: String?, end: @escaping @Sendable () -> Void
    ) {
      self.budget = budget
      self.id = id
      self.network = network
      self.end = end
    }

    /// The connection with the bytes that it holds; nil if it is gone and cannot be chosen.
    private func candidate(_ amount: Amount) -> Candidate? {
      isGone ? nil : Candidate(amount: amount, network: network, end: end)
    }

    deinit {
      guard reported.bytes != 0 else { return }
      budget.report(id, from: reported, to: Amount(), candidate(Amount()), wasGone: isGone)
    }

    /// Reports that the connection is gone and its client may hold no more, except for requests that are under way: the
    /// engine has them until they are complete. Their bytes stay charged, and ending the connection would not release
    /// them, so the budget no longer chooses it.
    public mutating func leave(holding bytes: Int) {
      let amount = Amount(bytes: bytes)
      budget.report(id, from: reported, to: amount, nil, wasGone: isGone)
      (reported, isGone) = (amount, true)
    }

    /// Reports the bytes that the connection holds now. O(1), without a lock for a small change.
    ///
    /// - Parameter idle: the bytes among them that it takes while it is idle.
    public mutating func report(_ bytes: Int, idle: Int = 0) {
      assert(0...bytes ~= idle)
      let change = bytes - reported.bytes
      guard change.magnitude >= MemoryBudget.reportBytes || (bytes == 0 && change != 0) else {
        return
      }
      let amount = Amount(bytes: bytes, idle: isGone ? 0 : idle)
      budget.report(id, from: reported, to: amount, candidate(amount), wasGone: isGone)
      reported = amount
    }

    /// Reports the bytes that the connection will hold when it has done some work, if there is room for them. Otherwise
    /// changes nothing, and the work must not begin.
    ///
    /// Connections that would be chosen before this one may end to make room for it. This connection does not end.
    ///
    /// - Parameter idle: the bytes among them that the connection takes while it is idle.
    /// - Returns: false if there is no room, or the connection is gone or is ending.
    public mutating func admit(_ bytes: Int, idle: Int = 0) -> Bool {
      assert(0...bytes ~= idle)
      let amount = Amount(bytes: bytes, idle: idle)
      guard let candidate = candidate(amount), budget.admits(id, candidate, from: reported) else {
        return false
      }
      report(bytes, idle: idle)
      return true
    }
  }

  private func admits(_ id: Int, _ candidate: Candidate, from old: Amount) -> Bool {
    state.withLock { $0.admits(id, candidate, from: old, bytesMax) }
  }

  /// Changes the bytes of a connection.
  ///
  /// - Parameters:
  ///   - candidate: the connection with its new amount; nil if it is gone.
  ///   - wasGone: whether it was gone before.
  private func report(
    _ id: Int, from old: Amount, to new: Amount, _ candidate: Candidate?, wasGone: Bool
  ) {
    let chosen: [@Sendable () -> Void] = state.withLock { state in
      let isKept = isPlanted(.memoryKept) && candidate == nil
      state.used += isKept ? 0 : new.bytes - old.bytes
      state.idle += new.idle - old.idle
      assert(state.used >= 0 && state.idle >= 0)
      guard let candidate else {
        // Its remaining bytes count against the bound until they are released.
        state.unowned += new.bytes - (wasGone ? old.bytes : 0)
        state.large[id] = nil
        state.small[id] = nil
        state.endingBytes -= state.ending.removeValue(forKey: id) ?? 0
        return []
      }
      if let ending = state.ending[id] {
        state.endingBytes += new.bytes - ending
        state.ending[id] = new.bytes > 0 ? new.bytes : nil
      } else {
        state.large[id] = new.isLarge ? candidate : nil
        state.small[id] = !new.isLarge && new.excess > 0 ? candidate : nil
      }
      return new.bytes > old.bytes ? state.chooseLargest(bytesMax) : []
    }
    for end in chosen { end() }
  }
}

extension MemoryBudget.State {
  /// Whether there is room for the bytes of a connection, or connections that would be chosen before it can make room.
  ///
  /// The bytes of connections that are ending are not free yet. O(connections that may be chosen) if there is no room.
  fileprivate func admits(
    _ id: Int, _ new: MemoryBudget.Candidate, from old: MemoryBudget.Amount, _ bytesMax: Int
  ) -> Bool {
    guard ending[id] == nil else { return false }
    let wanted = used + new.amount.bytes - old.bytes
    if wanted <= bytesMax || new.amount.bytes <= old.bytes { return true }
    let rest = wanted - LargestFirst.bytes(before: id, new, among: large)
    if rest <= bytesMax { return true }
    // Small connections end only if all of them together exceed the bound.
    guard !new.amount.isLarge, rest - endingBytes - unowned > bytesMax else { return false }
    return rest - LargestFirst.bytes(before: id, new, among: small) <= bytesMax
  }

  /// Marks the largest connections as ending until the others fit. O(n log n) for n connections that may be chosen.
  fileprivate mutating func chooseLargest(_ bytesMax: Int) -> [@Sendable () -> Void] {
    guard used - endingBytes > bytesMax else { return [] }
    var chosen: [@Sendable () -> Void] = []
    var order = LargestFirst(large)
    while used - endingBytes > bytesMax {
      guard let (id, largest) = order.takeLargest() else {
        chosen += chooseSmall(bytesMax)
        break
      }
      large[id] = nil
      chosen.append(end(id, largest))
    }
    return chosen
  }

  /// Marks small connections as ending, in the same order, if all of them together exceed the bound.
  private mutating func chooseSmall(_ bytesMax: Int) -> [@Sendable () -> Void] {
    // The others release their bytes themselves.
    guard used - endingBytes - unowned > bytesMax else { return [] }
    var chosen: [@Sendable () -> Void] = []
    var order = LargestFirst(small)
    while used - endingBytes - unowned > bytesMax - bytesMax / 16 {
      guard let (id, candidate) = order.takeLargest() else { break }
      small[id] = nil
      chosen.append(end(id, candidate))
    }
    return chosen
  }

  private mutating func end(
    _ id: Int, _ candidate: MemoryBudget.Candidate
  ) -> @Sendable () -> Void {
    ending[id] = candidate.amount.bytes
    endingBytes += candidate.amount.bytes
    return candidate.end
  }
}
