internal import Synchronization

/// A place where one task waits until another lets it go on: how tests hold something without
/// sleeping.
public final class Gate: Sendable {
  private struct State {
    var isOpen = false
    var arrivals = 0
    var held: [CheckedContinuation<Void, Never>] = []
    var watchers: [CheckedContinuation<Void, Never>] = []
  }

  private let state = Mutex(State())

  /// A closed gate.
  public init() {}

  /// Waits until the gate is open.
  public func pass() async {
    await withCheckedContinuation { continuation in
      let ready = state.withLock { state in
        state.arrivals += 1
        var ready = state.watchers
        state.watchers = []
        if state.isOpen { ready.append(continuation) } else { state.held.append(continuation) }
        return ready
      }
      for continuation in ready { continuation.resume() }
    }
  }

  /// Waits until somebody has come to the gate.
  public func reached() async {
    await withCheckedContinuation { continuation in
      let isReached = state.withLock { state in
        if state.arrivals == 0 { state.watchers.append(continuation) }
        return state.arrivals > 0
      }
      if isReached { continuation.resume() }
    }
  }

  /// Lets everybody through, now and later.
  public func open() {
    let held = state.withLock { state in
      state.isOpen = true
      let held = state.held
      state.held = []
      return held
    }
    for continuation in held { continuation.resume() }
  }
}
