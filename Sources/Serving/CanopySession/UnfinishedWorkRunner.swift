internal import CanopyEngine
internal import CanopySocial
internal import CanopyTree
internal import CanopyWire
internal import Logging

/// Carries out `UnfinishedWork`, a step in each commit, beside the requests of clients.
///
/// It sleeps until a commit leaves work, and begins with the work that the last process left. It works only while the
/// built-in rules are in force: under other rules the locations of the marks can have data of the administrator. No
/// other client can write there: see `Operations.checkServerPlaces(_:before:after:)`.
public final class UnfinishedWorkRunner: Sendable {
  private let engine: Engine
  private let rules: RulesKeeper
  private let deleteAccount: @Sendable (_ uid: Key) async throws -> Void
  private let logger: Logger
  private let signals: AsyncStream<Void>
  private let signal: AsyncStream<Void>.Continuation

  /// - Parameter deleteAccount: deletes an account if it exists, before everything of its user is removed.
  init(
    engine: Engine, rules: RulesKeeper, logger: Logger,
    deleteAccount: @escaping @Sendable (_ uid: Key) async throws -> Void
  ) {
    self.engine = engine
    self.rules = rules
    self.deleteAccount = deleteAccount
    self.logger = logger
    (signals, signal) = AsyncStream.makeStream(bufferingPolicy: .bufferingNewest(1))
    signal.yield()
  }

  /// Carries out steps until the task is cancelled or the engine has stopped. Call it once.
  ///
  /// - Parameter clock: the clock by which it waits a second after the journal has failed.
  public func run(clock: some Clock<Duration>) async {
    var turns = UnfinishedWork.Turns()
    for await _ in signals {
      while !Task.isCancelled, rules.current.isAboutBlog, let mark = turns.next(in: engine.root) {
        do {
          if let uid = mark.accountToDelete { try await deleteAccount(uid) }
          // The next step is queued behind all requests that came meanwhile. The rules may be replaced before it.
          let hasWritten = try await engine.transact { [rules] proposal in
            guard rules.current.isAboutBlog else { return Decision(nil, false) }
            let write = try UnfinishedWork.step(
              of: mark, in: &proposal, withoutAccount: mark.accountToDelete
            ).write
            return Decision(write, write != nil)
          }.result
          if hasWritten, let uid = mark.erasedUser, !mark.exists(in: engine.root) {
            logger.notice(
              "everything that a deleted user had added is removed", metadata: ["uid": "\(uid)"])
          }
        } catch EngineError.stopped {
          return
        } catch {
          logger.error(
            "a step of a renaming, removal or deletion failed; it is tried again",
            metadata: ["error": "\(error)"])
          do { try await clock.sleep(for: .seconds(1)) } catch { return }
        }
      }
    }
  }

  /// Makes `run` look for work.
  func wake() {
    signal.yield()
  }
}

extension Operations {
  /// Returns a decision, unless it leaves work for later commits and the built-in rules are not in force. That work would
  /// not be done then, and a renaming or removal would stay half done.
  ///
  /// - Throws: `WireError` for such a decision.
  func refusingUnfinishedWork<Result>(
    _ decision: Decision<Result>
  ) throws(WireError) -> Decision<Result> {
    guard let write = decision.write, UnfinishedWork.isLeft(by: write), !rules.current.isAboutBlog
    else { return decision }
    throw WireError(
      .badRequest,
      "there are more than \(UnfinishedWork.entriesMax) posts or comments to change; while the rules are not "
        + "the built-in ones, that is not done in steps"
    )
  }

  /// Continues the work that a commit may have left. O(1).
  func continueUnfinishedWork() {
    // The locations of the blog have no meaning in other namespaces, and under other rules.
    guard hasBlog, UnfinishedWork.exists(in: engine.root), rules.current.isAboutBlog else { return }
    unfinishedWork.wake()
  }
}
