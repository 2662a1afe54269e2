public import CanopyEngine
public import CanopyTree
internal import Synchronization

/// The bytes that the posts and comments of each user take, and the bound on them.
///
/// A post counts for its author with the bytes of its title and its body, a comment with those of its text, and each
/// with `entryBytes` more. The id of a removed post that is still reserved counts with `entryBytes`, so that no user can
/// fill the disk with posts that are removed at once. Stars and profiles do not count.
///
/// The numbers follow from the tree: they are counted when the server starts, and after that from the differences of
/// its versions. So they also agree after writes of the administrator, of other nodes and of a restore. Writes that were
/// admitted and are not in the tree yet count as well.
///
/// Complexity: O(posts and comments) at the start; afterwards O(log n) for each post or comment that has changed. The
/// differences are looked for when a write needs the numbers, or after some commits.
/// Memory: about 100 bytes for each user with posts or comments.
public final class UserStorage: BatchObserver {
  /// The bytes that each post, comment or reserved id counts besides its texts.
  public static let entryBytes = 256
  /// The number of commits after which the differences are looked for at the latest. The former version of the tree stays
  /// in memory until then, and the engine's thread looks for all differences at once, so it is not large.
  private static let commitsMax: Int64 = 64

  /// The most bytes of one user.
  public let bytesMax: Int
  private let state: Mutex<State>

  fileprivate struct State {
    /// The version that the numbers describe; nil before the first one is counted.
    var counted: Snapshot?
    /// The last published version.
    var latest: Snapshot?
    var bytes: [Key: Int] = [:]
    /// The bytes of writes that were admitted since `latest` was published.
    var pending: [Key: Int] = [:]
    var refused = 0
  }

  /// Counts the tree of an engine, and follows its commits. The engine does not keep it alive.
  ///
  /// - Precondition: the engine does not run yet, or is idle: its thread waits for the count.
  public init(of engine: Engine, bytesMax: Int) {
    self.bytesMax = bytesMax
    state = Mutex(State())
    state.withLock { state in
      let snapshot = engine.add(self)
      (state.counted, state.latest) = (snapshot, snapshot)
      StorageCount.forEachEntry(in: snapshot.root) { uid, bytes in
        state.bytes[uid, default: 0] += bytes
      }
    }
  }

  /// The bytes of a user.
  public func bytes(of uid: Key) -> Int {
    state.withLock { state in
      state.update()
      return state.bytes[uid] ?? 0
    }
  }

  /// The number of writes that were refused.
  public var refused: Int { state.withLock { $0.refused } }

  /// Admits the assignments of a write that is about to be made. A write that adds no bytes is always admitted.
  ///
  /// Call on the engine's thread.
  ///
  /// - Parameter before: the root of the latest tree, without the write.
  /// - Throws: `SocialError.quotaExceeded` if a user would have more than `bytesMax`.
  /// - Complexity: O(assignments × log n), and O(changes since the last call).
  public func admit(_ assignments: [Assignment], over before: Node) throws(SocialError) {
    let added = StorageCount.added(by: assignments, over: before).filter { $0.value > 0 }
    guard !added.isEmpty else { return }
    let isAdmitted = state.withLock { state in
      state.update()
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

  /// Takes the snapshot after a batch. O(1), except after many commits.
  public func batchEnded(_ snapshot: Snapshot) {
    // The former version is freed without the lock.
    let former = state.withLock { state -> Snapshot? in
      let former = state.counted
      state.latest = snapshot
      if let former, snapshot.sequence - former.sequence >= UserStorage.commitsMax {
        state.update()
      }
      return former
    }
    withExtendedLifetime(former) {}
  }
}

extension UserStorage.State {
  /// Counts the differences between the last published version and the counted one.
  fileprivate mutating func update() {
    guard let latest, let counted, latest.sequence != counted.sequence else { return }
    StorageCount.forEachDifference(from: counted.root, to: latest.root) { uid, difference in
      let sum = (bytes[uid] ?? 0) + difference
      bytes[uid] = sum > 0 ? sum : nil
    }
    self.counted = latest
    // Their batch was published or has failed.
    pending = [:]
  }
}
