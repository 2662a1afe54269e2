public import CanopyEngine
public import CanopyTree
internal import Synchronization

/// The bytes that the posts and comments of each user take, and the bound on them.
///
/// A post counts for its author with the bytes of its title and its body, a comment with those of its text, and each
/// with `entryBytes` more. The id of a removed post that is still reserved counts with `entryBytes`, so that no user can
/// fill the disk with posts that are removed at once. Stars and profiles do not count.
///
/// The numbers follow from the tree: they are counted when the server starts, and after that from the locations that
/// commits write. So they also agree after writes of the administrator, of other nodes and of a restore. Writes that were
/// admitted and are not in the tree yet count as well.
///
/// Complexity: O(posts and comments) at the start; afterwards O(log n) for each post or comment that a commit writes.
/// Memory: about 100 bytes for each user with posts or comments.
public final class UserStorage: CommitObserver {
  /// The bytes that each post, comment or reserved id counts besides its texts.
  public static let entryBytes = 256
  /// The most bytes of one user.
  public let bytesMax: Int
  private let state: Mutex<State>

  private struct State {
    var bytes: [Key: Int] = [:]
    /// The bytes of writes that were admitted since the last commits were published.
    var pending: [Key: Int] = [:]
    var refused = 0
  }

  /// Counts the tree of an engine, and follows its commits. The engine does not keep it alive.
  ///
  /// - Precondition: the engine does not run yet, or is idle: its thread waits for the count.
  public init(of engine: Engine, bytesMax: Int) {
    self.bytesMax = bytesMax
    state = Mutex(State())
    state.withLock { $0.bytes = StorageCount.bytes(in: engine.add(self).root) }
  }

  /// The bytes of a user.
  public func bytes(of uid: Key) -> Int {
    state.withLock { $0.bytes[uid] ?? 0 }
  }

  /// The number of writes that were refused.
  public var refused: Int { state.withLock { $0.refused } }

  /// Admits a new post or comment that is about to be made. O(1) on average. Call on the engine's thread.
  ///
  /// - Parameter textBytes: the bytes of its texts.
  /// - Throws: `SocialError.quotaExceeded` if the user would have more than `bytesMax`.
  public func admitEntry(of uid: Key, textBytes: Int) throws(SocialError) {
    try admit(CollectionOfOne((uid, textBytes + UserStorage.entryBytes)))
  }

  /// Admits the assignments of a write that is about to be made. A write that adds no bytes is always admitted.
  ///
  /// Call on the engine's thread.
  ///
  /// - Parameter before: the root of the latest tree, without the write.
  /// - Throws: `SocialError.quotaExceeded` if a user would have more than `bytesMax`.
  /// - Complexity: O(assignments × log n).
  public func admit(_ assignments: [Assignment], over before: Node) throws(SocialError) {
    let added = StorageCount.added(by: assignments, over: before)
    try admit(added.lazy.filter { $0.value > 0 }.map { ($0.key, $0.value) })
  }

  private func admit(_ added: some Collection<(Key, Int)>) throws(SocialError) {
    guard !added.isEmpty else { return }
    let isAdmitted = state.withLock { state in
      let isWithin = added.allSatisfy { uid, bytes in
        (state.bytes[uid] ?? 0) + (state.pending[uid] ?? 0) + bytes <= bytesMax
      }
      guard isWithin else {
        state.refused += 1
        return false
      }
      for (uid, bytes) in added { state.pending[uid, default: 0] += bytes }
      return true
    }
    guard isAdmitted else {
      throw .quotaExceeded(
        "your posts and comments may have \(bytesMax) bytes together; delete some first")
    }
  }

  /// Counts the differences that commits made. O(assignments), and O(log n) for each post, comment or reserved id that
  /// they wrote.
  public func committed(_ commits: [Commit], from before: Node, to after: Node) {
    if commits.isEmpty { return }
    var differences: [(uid: Key, bytes: Int)] = []
    StorageCount.forEachDifference(from: before, to: after, by: commits) {
      differences.append(($0, $1))
    }
    state.withLock { state in
      for (uid, bytes) in differences {
        let sum = (state.bytes[uid] ?? 0) + bytes
        state.bytes[uid] = sum > 0 ? sum : nil
      }
      // Their batch was published or has failed.
      if !state.pending.isEmpty { state.pending = [:] }
    }
  }
}
