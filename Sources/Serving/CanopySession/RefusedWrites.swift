internal import CanopyAccounts
internal import CanopyEngine
internal import CanopyTree
internal import CanopyWire
internal import Synchronization

/// The first refused write of each client of `ONCE`, so that later writes of the client do not overtake it.
///
/// A client that has sent several writes ahead sends all of them again in their order. Without this, a later one could
/// be made first, and the earlier one, made after it, would replace its value.
///
/// Complexity: O(1).
struct RefusedWrites: Sendable {
  /// The number of clients that are remembered.
  static let clientsMax = 10_000
  /// The time for which a client has to send a refused write again before later ones, in milliseconds. After it, the client
  /// has probably given the write up.
  static let orderMax: Int64 = 60_000

  private var clients = RecencyTable<ByteString, (number: Int64, at: Int64)>(
    capacity: RefusedWrites.clientsMax)

  /// The number of clients.
  var count: Int { clients.count }

  /// Notes that a write was refused.
  ///
  /// - Parameter now: the time in milliseconds since 1970.
  mutating func note(_ origin: WriteOrigin, now: Int64) {
    if blocks(origin, now: now, itself: true) { return }
    clients.set((origin.number, now), for: origin.rememberedName)
  }

  /// Whether a refused write has yet to come again before a write.
  ///
  /// - Parameter itself: whether that write may be the same.
  mutating func blocks(_ origin: WriteOrigin, now: Int64, itself: Bool = false) -> Bool {
    guard let earlier = clients[origin.rememberedName] else { return false }
    let (age, overflow) = now.subtractingReportingOverflow(earlier.at)
    return origin.number > (itself ? earlier.number - 1 : earlier.number)
      && origin.seen < earlier.number && !overflow && age < RefusedWrites.orderMax
  }

  /// Notes that a write has come. Forgets its refusal, or one that no longer counts.
  mutating func forget(_ origin: WriteOrigin) { clients.remove(origin.rememberedName) }
}

/// The writes that the engine has refused for a reason that passes, such as a failure of the journal. Later writes of
/// the same client may wait in the engine's queue at that time. Safe to use from any thread.
final class FailedWrites: Sendable {
  private let state = Mutex(RefusedWrites())
  /// The number of clients, so that most writes take no lock.
  private let count = Atomic(0)

  /// Checks that a write does not overtake an earlier one of its client that failed. Called when it is decided.
  ///
  /// - Throws: `WireError` if it does.
  func check(_ origin: WriteOrigin?, now: Int64) throws(WireError) {
    guard let origin, count.load(ordering: .relaxed) > 0 else { return }
    if state.withLock({ $0.blocks(origin, now: now) }) { throw .earlierFailed }
  }

  /// Notes the outcome of a write.
  ///
  /// - Parameter error: nil if it is made.
  func note(_ origin: WriteOrigin?, _ error: (any Error)?, now: Int64) {
    guard let origin else { return }
    switch error {
    case EngineError.journalFailed?, EngineError.outcomeUnknown?, EngineError.overloaded?:
      change { $0.note(origin, now: now) }
    default:
      guard count.load(ordering: .relaxed) > 0 else { return }
      change { if !$0.blocks(origin, now: now) { $0.forget(origin) } }
    }
  }

  private func change(_ body: (inout RefusedWrites) -> Void) {
    state.withLock { state in
      body(&state)
      count.store(state.count, ordering: .relaxed)
    }
  }
}

extension Operations {
  /// Notes the outcome of a write that its client may send again.
  func note<Result>(_ origin: WriteOrigin?, _ outcome: Swift.Result<Committed<Result>, any Error>) {
    guard origin != nil else { return }
    switch outcome {
    case .success: failedWrites.note(origin, nil, now: now())
    case .failure(let error): failedWrites.note(origin, error, now: now())
    }
  }
}

extension WireError {
  fileprivate static let earlierFailed = WireError(
    .unavailable, "an earlier write of this client was not made; send it again first")
}
