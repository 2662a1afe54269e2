internal import CanopyEngine
internal import CanopyTree
internal import Logging
internal import Synchronization

/// Notifies the other nodes, by marks of commits, of accounts that may have changed and of logins that have ended.
///
/// A mark that cannot be committed is tried again each second until the engine stops. Safe to use from any thread.
final class AccountMarks: Sendable {
  private struct State {
    /// The accounts whose marks are to be committed.
    var waiting: Set<ByteString> = []
    var isAtWork = false
  }

  private let engine: Engine
  private let logger: Logger
  private let state = Mutex(State())

  /// Creates the marks of an engine; nil if no other engine writes its journal.
  init?(_ engine: Engine, _ logger: Logger) {
    guard engine.isShared else { return nil }
    self.engine = engine
    self.logger = logger
  }

  /// Commits a mark soon. Returns at once.
  func add(_ uid: String) {
    let mustStart = state.withLock { state in
      state.waiting.insert(ByteString(uid))
      defer { state.isAtWork = true }
      return !state.isAtWork
    }
    if mustStart { Task { await work() } }
  }

  private func next() -> ByteString? {
    state.withLock { state in
      let uid = state.waiting.popFirst()
      if uid == nil { state.isAtWork = false }
      return uid
    }
  }

  private func work() async {
    while let uid = next() {
      do {
        _ = try await engine.commit(.account(uid: uid.text))
      } catch EngineError.stopped {
        return
      } catch {
        logger.error(
          "the other nodes were not notified of a change of an account; it is tried again",
          metadata: ["error": "\(error)"])
        state.withLock { _ = $0.waiting.insert(uid) }
        // A cancelled wait ends as well.
        try? await engine.clock.sleep(for: .seconds(1))
      }
    }
  }
}
