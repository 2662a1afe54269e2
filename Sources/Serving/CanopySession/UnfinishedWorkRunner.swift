internal import CanopyEngine
internal import CanopySocial
internal import CanopyTree
internal import CanopyWire
internal import Logging

/// Carries out `UnfinishedWork`, a step in each commit, beside the requests of clients.
///
/// A search for stars reads on a thread of its own, at a lower priority than the event loops and the writer. After each
/// of its parts it rests for as long as the part took: users can delete accounts all the time, so there may always be a
/// search.
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
      while !Task.isCancelled, rules.current.isAboutBlog, let turn = turns.next(in: engine.root) {
        do {
          switch turn {
          case .step(let mark): try await carryOut(mark)
          case .look(let search):
            let next = try await look(search, clock: clock)
            turns.note(next)
          case .write(var search):
            try await write(search)
            search.noteWritten()
            turns.note(search)
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
      // Under other rules anyone may write stars where a search has looked.
      if !rules.current.isAboutBlog { turns = UnfinishedWork.Turns() }
    }
  }

  /// - Throws: the last error of an account that could not be deleted, after the step of the others.
  private func carryOut(_ mark: UnfinishedWork.Mark) async throws {
    var deleted: [Key] = []
    var failure: (any Error)?
    for uid in mark.accountsToDelete {
      do {
        try await deleteAccount(uid)
        deleted.append(uid)
      } catch {
        failure = error
      }
    }
    // The next step is queued behind all requests that came meanwhile. The rules may be replaced before it.
    _ = try await engine.transact { [rules, deleted] proposal in
      guard rules.current.isAboutBlog else { return Decision(nil, ()) }
      return try UnfinishedWork.step(of: mark, in: &proposal, withoutAccounts: deleted)
    }
    if let failure { throw failure }
  }

  /// Returns a search after its next look at posts.
  private func look<C: Clock<Duration>>(
    _ search: StarSearch, clock: C
  ) async throws -> StarSearch {
    let (next, duration) = try await Operations.onWorker { [engine] in
      let begin = clock.now
      var next = search
      next.look(in: engine.root)
      return (next, begin.duration(to: clock.now))
    }
    if duration > .zero { try await clock.sleep(for: duration) }
    return next
  }

  private func write(_ search: StarSearch) async throws {
    let erased = try await engine.transact { [rules] proposal in
      guard rules.current.isAboutBlog else { return Decision(nil, [Key]()) }
      return try search.write(in: &proposal)
    }.result
    for uid in erased {
      logger.notice(
        "everything that a deleted user had added is removed", metadata: ["uid": "\(uid)"])
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
