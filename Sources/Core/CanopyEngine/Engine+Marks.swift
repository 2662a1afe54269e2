internal import CanopyTree
internal import Synchronization

/// An event of a journal with several engines that concerns more than the tree.
public enum JournalEvent: Sendable {
  /// A commit with this mark has been adopted or made.
  case marked(CommitMark, sequence: Int64)
  /// The node was behind the commits that the journal keeps, and has loaded the tree again. It may have missed marks.
  case reloaded(JournaledRules?)
}

/// Marks: changes besides the tree that come into force on all nodes at the number of a commit.
extension Engine {
  /// Whether several engines may write the journal.
  public var isShared: Bool { shared != nil }

  /// Adds a closure that takes the marks of all commits from now on, those of this engine too.
  ///
  /// - Parameter handler: called on the engine's thread when all commits up to the mark are published, and before any
  ///   later commit is decided or adopted. It must be brief.
  /// - Returns: the rules of the journal at the start, and the number of the last commit that is published.
  public func takeMarks(
    _ handler: @escaping @Sendable (JournalEvent) -> Void
  ) -> (rules: JournaledRules?, sequence: Int64) {
    state.withLock { state in
      state.markHandlers.append(handler)
      return (state.journaledRules, state.currentSequence)
    }
  }

  /// Makes a commit that changes nothing but has a mark.
  ///
  /// - Precondition: several engines may write the journal. Others store no marks.
  /// - Returns: the sequence number of the commit. The mark is in force on this node.
  /// - Throws: `EngineError`.
  public func commit(_ mark: CommitMark) async throws -> Int64 {
    precondition(isShared, "only a shared journal stores marks")
    return try await withCheckedThrowingContinuation { continuation in
      let request = MarkRequest(mark) { continuation.resume(with: $0) }
      let (refusal, wakeUp) = state.withLock { $0.add(request, of: .server) }
      wakeUp?.resume()
      if let refusal { continuation.resume(throwing: refusal) }
    }
  }

  /// Hands the mark of the last published commit to all handlers.
  func putInForce(_ mark: CommitMark, at sequence: Int64) {
    for handler in state.withLock({ $0.markHandlers }) {
      handler(.marked(mark, sequence: sequence))
    }
  }
}

/// A commit that has a mark and changes nothing.
///
/// `@unchecked Sendable`: only the engine's thread uses `decided`, the only variable.
private final class MarkRequest: PendingRequest, @unchecked Sendable {
  private let mark: CommitMark
  private let completion: @Sendable (Result<Int64, any Error>) -> Void
  private var decided: Result<Int64, any Error>?

  var name: StaticString { "mark" }

  init(
    _ mark: CommitMark, completion: @escaping @Sendable (Result<Int64, any Error>) -> Void
  ) {
    self.mark = mark
    self.completion = completion
  }

  func run(in batch: inout Batch) -> Bool {
    assert(decided == nil, "a mark is decided once")
    decided = Result {
      try batch.add(mark)
      return batch.sequence
    }
    return true
  }

  func rollBack() {
    decided = nil
  }

  func complete(_ failure: EngineError?) {
    completion(failure.map { .failure($0) } ?? decided ?? .failure(EngineError.stopped))
  }
}
