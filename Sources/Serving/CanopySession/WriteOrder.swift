internal import CanopyEngine
internal import CanopyTree
internal import CanopyWire
internal import Synchronization

/// The order of the writes of each client of `ONCE` in one namespace, after a refusal for a reason that passes.
///
/// A write is looked up twice. When it is admitted, it is refused if an earlier write of the client was refused, and it
/// costs nothing else. When it is decided, no earlier write may have failed meanwhile: later writes of the same
/// client may already wait in the engine's queue at that time. Each refusal is noted in both tables before the client gets
/// the reply, and one by the engine also before the next write is decided. Safe to use from any thread.
final class WriteOrder: Sendable {
  private struct State {
    /// The refused writes that have not been admitted since.
    var admission = RefusedWrites()
    /// The refused writes that have not been decided since.
    var decision = RefusedWrites()
  }

  private let state = Mutex(State())
  /// The number of clients in both tables, so that most writes take no lock.
  private let count = Atomic(0)

  /// Counts a write in the quotas, or returns the error with which it is refused: also if an earlier write of its client
  /// was refused and has yet to come again. O(1).
  ///
  /// The writes of an exempt caller do not count, but are kept in order.
  ///
  /// - Parameters:
  ///   - origin: identifies a write that its client may send again; nil for others.
  ///   - growth: the bytes that it adds to the tree; 0 or less if it adds none.
  ///   - quotas: the quotas; nil for none.
  ///   - now: the time in milliseconds since 1970.
  func admit(
    _ origin: WriteOrigin?, of owner: WriteQuotas.Owner, bytes: Int, growth: Int = 0,
    by quotas: WriteQuotas?, now: Int64
  ) -> WireError? {
    if let origin, count.load(ordering: .relaxed) > 0 {
      let isInOrder = change { $0.admission.admits(origin, from: owner.network, now: now) }
      guard isInOrder else {
        return quotas?.refuseForOrder(owner, now: now) ?? .earlierFailed
      }
    }
    return quotas?.admit(owner, bytes: bytes, growth: growth, now: now)
  }

  /// Checks that a write does not overtake an earlier one of its client that failed. Called when it is decided.
  ///
  /// - Parameter network: the remote network of the client; nil for this machine.
  /// - Throws: `WireError` if it does.
  func check(_ origin: WriteOrigin?, from network: String?, now: Int64) throws(WireError) {
    guard let origin, count.load(ordering: .relaxed) > 0 else { return }
    let isInOrder = change { $0.decision.admits(origin, from: network, now: now) }
    if !isInOrder { throw .earlierFailed }
  }

  /// Notes the outcome of a write. After a refusal for a reason that passes, later writes of the client wait until the write
  /// comes again. Any other outcome is final, and they do not wait for this write.
  ///
  /// - Parameters:
  ///   - network: the remote network of the client; nil for this machine.
  ///   - error: the error that its client gets; nil if the write was made, now or before.
  func note(_ origin: WriteOrigin, from network: String?, _ error: WireError?, now: Int64) {
    if let error, error.code.isTransient {
      change { state in
        state.admission.note(origin, from: network, now: now)
        state.decision.note(origin, from: network, now: now)
      }
    } else if count.load(ordering: .relaxed) > 0 {
      change { state in
        state.admission.settle(origin, now: now)
        state.decision.settle(origin, now: now)
      }
    }
  }

  @discardableResult
  private func change<R: Sendable>(_ body: (inout State) -> R) -> R {
    state.withLock { state in
      defer { count.store(state.admission.count + state.decision.count, ordering: .relaxed) }
      return body(&state)
    }
  }
}

extension RefusedWrites {
  /// Whether a write is in its order. Notes it as refused if it is not, and forgets its refusal if it is.
  fileprivate mutating func admits(
    _ origin: WriteOrigin, from network: String?, now: Int64
  ) -> Bool {
    guard !blocks(origin, now: now) else {
      note(origin, from: network, now: now)
      return false
    }
    forget(origin, now: now)
    return true
  }
}

extension Operations {
  /// Notes the error of a write that its client may send again, before the writes behind it in the batch are decided.
  /// Call it on the engine's thread, from `Transaction.refused`.
  func noteRefusal(of origin: WriteOrigin?, from network: String?, _ error: any Error) {
    guard let origin else { return }
    writeOrder.note(
      origin, from: network, error is RepeatedWrite ? nil : wireError(error), now: now())
  }
}

extension WireError.Code {
  /// Whether the same request may succeed later, so that its client may send it again.
  var isTransient: Bool {
    switch self {
    case .overloaded, .unavailable, .rateLimited: true
    default: false
    }
  }
}

extension WireError {
  fileprivate static let earlierFailed = WireError(
    .unavailable, "an earlier write of this client was not made; send it again first")
}
