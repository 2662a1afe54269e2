import Synchronization

/// The state of an account, against which an identity token is checked.
public enum AccountState: Sendable, Equatable {
  /// The user can log in. Logins count from `validSince`, in seconds since 1970.
  case active(validSince: Int64)
  /// An administrator has disabled the account.
  case disabled
  /// The account does not exist, or its sign-up has not finished.
  case missing

  init(_ account: Account?) {
    guard let account, !account.isPending else {
      self = .missing
      return
    }
    self = account.isDisabled ? .disabled : .active(validSince: account.details.validSince)
  }
}

/// The states of the accounts that were used last, in memory.
///
/// A state is read from the store once, and forgotten when the account changes. A state that was read before a change is
/// not kept: the number of changes shows that. Bounded by its capacity; each operation is O(1). Safe to use from any
/// thread.
final class AccountStates: Sendable {
  private struct State {
    /// The states, by the bytes of the uid. Texts with other bytes may be equal.
    var states: RecencyTable<[UInt8], AccountState>
    var changes = 0
  }

  private let state: Mutex<State>

  init(capacity: Int) {
    state = Mutex(State(states: RecencyTable(capacity: capacity)))
  }

  /// Returns the state if it is known, and the number of changes so far.
  func state(of uid: String) -> (state: AccountState?, changes: Int) {
    let key = Array(uid.utf8)
    return state.withLock { state in
      state.states.touch(key)
      return (state.states[key], state.changes)
    }
  }

  /// Keeps a state that was read from the store, unless an account has changed since `changes`.
  func keep(_ new: AccountState, of uid: String, changes: Int) {
    let key = Array(uid.utf8)
    state.withLock { state in
      guard state.changes == changes else { return }
      state.states.set(new, for: key)
    }
  }

  /// Forgets the state of an account that changes.
  func forget(_ uid: String) {
    let key = Array(uid.utf8)
    state.withLock { state in
      state.changes += 1
      state.states.remove(key)
    }
  }
}

extension AccountService {
  /// Returns the state of an account if it is in memory. O(1); a read of the store is not necessary then.
  public func knownState(of uid: String) -> AccountState? {
    states.state(of: uid).state
  }

  /// Returns the state of an account, from memory or with one look-up. Throws only errors of the store.
  ///
  /// A change that has returned is always seen, whichever call made it.
  public func state(of uid: String) async throws -> AccountState {
    let known = states.state(of: uid)
    if let state = known.state { return state }
    let state = AccountState(try await store.account(uid: uid))
    states.keep(state, of: uid, changes: known.changes)
    return state
  }

  /// Forgets the state of an account that another process may have changed. O(1).
  public func forgetState(of uid: String) {
    states.forget(uid)
  }

  /// Runs a step that may change an account or end its logins. Its state is forgotten even if the step fails, because the
  /// store may have made the change before it failed.
  func revoking<Result>(
    _ uid: String, _ step: () async throws -> Result
  ) async throws -> Result {
    defer { noteChange(of: uid) }
    return try await step()
  }

  /// Runs a change of an account in the store, as `revoking` does.
  ///
  /// - Throws: the `AccountError` with which the change was refused; ``UncertainChange`` after any other error, because the
  ///   store may have made the change before it failed.
  func changing<Result>(
    _ uid: String, _ step: () async throws -> Result
  ) async throws -> Result {
    do {
      return try await revoking(uid, step)
    } catch let error as AccountError {
      throw error
    } catch {
      throw UncertainChange(uid: uid, reason: error)
    }
  }
}
