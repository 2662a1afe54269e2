public import CanopyEngine
public import CanopyTree
internal import Synchronization

/// A journal in memory. It records the operations for tests.
public final class InMemoryJournal: Journal {
  private struct State {
    var root: Node
    var checkpoint: Int64
    var commits: [Commit] = []
    var groups: [Int] = []
    var checkpoints: [Int64] = []
    var pages: [HistoryPage] = []
    var disconnectWrites: [DisconnectWrite] = []
    var lastDisconnectID: DisconnectWriteID = 0
    var rulesRecord: RulesRecord?
  }

  private let state: Mutex<State>

  /// Creates a journal with a tree as its checkpoint and no commits.
  public init(root: Node = .absent, checkpoint: Int64 = 0) {
    state = Mutex(State(root: root, checkpoint: checkpoint))
  }

  /// All commits that were appended.
  public var commits: [Commit] { state.withLock { $0.commits } }

  /// The number of commits of each append that succeeded.
  public var groups: [Int] { state.withLock { $0.groups } }

  /// The sequence number of each checkpoint.
  public var checkpoints: [Int64] { state.withLock { $0.checkpoints } }

  /// Returns the state of the checkpoint and the commits after it.
  public func load(keeping indexes: IndexPlan) async throws -> JournalState {
    state.withLock { state in
      var tree = Tree(root: state.root, indexPlan: indexes)
      for commit in state.commits where commit.sequence > state.checkpoint {
        tree.apply(commit.assignments)
      }
      return JournalState(
        tree: tree, sequence: state.commits.last?.sequence ?? state.checkpoint,
        checkpoint: state.checkpoint,
        lastTime: state.commits.map { max($0.time, $0.keyTime ?? 0) }.max(),
        clientWrites: state.commits.compactMap(\.clientWrite))
    }
  }

  /// Reads a page of the history. The bytes of a commit are those of its assignments and its image as JSON.
  public func history(
    after first: Int64, through last: Int64, where isAsked: @escaping HistoryFilter
  ) async throws -> HistoryPage {
    state.withLock { state in
      var page = HistoryPage()
      for commit in state.commits.reversed() where commit.sequence > first {
        guard commit.sequence <= last else { continue }
        let isThis = isAsked(commit.assignments.map(\.location))
        var output = JSONOutput()
        AssignmentCodec.encode(commit.assignments, to: &output)
        if isThis, let image = commit.beforeImage { AssignmentCodec.encode(image, to: &output) }
        guard page.add(commit.sequence, bytes: output.count, isThis ? commit : nil), !page.isFull
        else { break }
      }
      state.pages.append(page)
      return page
    }
  }

  /// The pages of the history that were read.
  public var pages: [HistoryPage] { state.withLock { $0.pages } }

  /// Removes the commits up to a sequence number, as a journal that keeps a bounded number.
  public func forget(through sequence: Int64) {
    state.withLock { $0.commits.removeAll { $0.sequence <= sequence } }
  }

  /// Removes the before-images of the commits up to a sequence number, as a journal does with large images.
  public func forgetImages(through sequence: Int64) {
    state.withLock { state in
      for i in state.commits.indices where state.commits[i].sequence <= sequence {
        state.commits[i].beforeImage = nil
      }
    }
  }

  /// Appends commits after the last one.
  public func append(_ commits: [Commit], after last: Int64) async throws {
    try state.withLock { state in
      guard last == state.commits.last?.sequence ?? state.checkpoint else {
        throw JournalError.conflict(missed: state.commits.filter { $0.sequence > last })
      }
      state.commits += commits
      for commit in commits {
        state.disconnectWrites.removeAll { commit.completedDisconnectWrites.contains($0.id) }
      }
      state.groups.append(commits.count)
    }
  }

  /// Returns the commits after one, without their before-images.
  public func resolveAppend(after last: Int64) async throws -> [Commit] {
    state.withLock { state in
      state.commits.filter { $0.sequence > last }.map { commit in
        var commit = commit
        commit.beforeImage = nil
        return commit
      }
    }
  }

  /// Stores the tree as the checkpoint, in one step.
  public func checkpoint(
    _ root: Node, through sequence: Int64, resting rest: @Sendable () async throws -> Void
  ) async throws {
    state.withLock { state in
      state.root = root
      state.checkpoint = sequence
      state.checkpoints.append(sequence)
    }
  }
}

extension InMemoryJournal: DisconnectStore {
  /// See `DisconnectStore`.
  public func disconnectWrites(
    after group: DisconnectWriteID, countMax: Int, bytesMax: Int
  ) async throws -> [DisconnectWrite] {
    state.withLock { state in
      state.disconnectWrites.page(after: group, countMax: countMax, bytesMax: bytesMax)
    }
  }

  /// See `DisconnectStore`.
  public func disconnectWriteIDs() async throws -> Set<DisconnectWriteID> {
    state.withLock { Set($0.disconnectWrites.map(\.id)) }
  }

  /// See `DisconnectStore`.
  public func changeDisconnectWrites(
    adding request: (identity: String, request: String)?, to group: DisconnectWriteID?,
    exceptions: [DisconnectWriteID: [String]], removing removed: [DisconnectWriteID]
  ) async throws -> DisconnectWriteID? {
    state.withLock { state in
      state.disconnectWrites.removeAll { removed.contains($0.id) }
      for i in state.disconnectWrites.indices {
        guard let paths = exceptions[state.disconnectWrites[i].id] else { continue }
        state.disconnectWrites[i].exceptions += paths
      }
      guard let request else { return nil }
      state.lastDisconnectID += 1
      state.disconnectWrites.append(
        DisconnectWrite(
          id: state.lastDisconnectID, group: group, identity: request.identity,
          request: request.request))
      return state.lastDisconnectID
    }
  }

  /// See `DisconnectStore`.
  public func setDisconnectIdentities(_ identities: [DisconnectWriteID: String]) async throws {
    state.withLock { state in
      for i in state.disconnectWrites.indices {
        guard let identity = identities[state.disconnectWrites[i].id] else { continue }
        state.disconnectWrites[i].identity = identity
      }
    }
  }
}

extension InMemoryJournal: RulesRecordStore {
  /// See `RulesRecordStore`.
  public func rulesRecord() async throws -> RulesRecord? { state.withLock { $0.rulesRecord } }

  /// See `RulesRecordStore`.
  public func setRulesRecord(_ record: RulesRecord?) async throws {
    state.withLock { $0.rulesRecord = record }
  }
}

extension Sequence<Commit> {
  /// Returns the tree after all commits.
  public func folded(onto root: Node = .absent) -> Node {
    var tree = Tree(root: root)
    for commit in self { tree.apply(commit.assignments) }
    return tree.root
  }
}
