internal import Synchronization

/// Digests of branches, kept beside the tree: of pages, records and boxes that never change, by their
/// identity.
///
/// Nodes would grow if they had room for digests, for which few are ever asked. So an object has one mark
/// (in bytes that its header has to spare), which says that there may be an entry; an object that is freed
/// or changed in place takes its entry along, so an identity is never mistaken for an earlier one's.
///
/// Holds at most `entriesMax` entries, some 60 bytes each. The entries are in two generations: when the
/// young one is full it becomes the old one, whose entries are dropped unless they were used since.
final class DigestCache: Sendable {
  /// The one of the process: nodes are shared by many trees. About 32 MB when full.
  static let shared = DigestCache(entriesMax: 512 * 1024)

  private struct Generations {
    var young: [ObjectIdentifier: NodeDigest] = [:]
    var old: [ObjectIdentifier: NodeDigest] = [:]
  }

  /// A part with a lock of its own.
  private final class Shard: Sendable {
    let generations = Mutex(Generations())
  }

  private static let shardCount = 64
  private let shards: [Shard]
  private let youngMax: Int

  init(entriesMax: Int) {
    shards = (0..<DigestCache.shardCount).map { _ in Shard() }
    youngMax = max(1, entriesMax / DigestCache.shardCount / 2)
  }

  /// The number of entries. O(shards).
  var count: Int {
    shards.reduce(0) { $0 + $1.generations.withLock { $0.young.count + $0.old.count } }
  }

  private func shard(_ id: ObjectIdentifier) -> Shard {
    // The lowest bits of an address say nothing.
    shards[Int(UInt(bitPattern: id) / 32 % UInt(DigestCache.shardCount))]
  }

  /// The digest of an object, if it is there.
  func digest(of id: ObjectIdentifier) -> NodeDigest? {
    shard(id).generations.withLock { generations in
      if let digest = generations.young[id] { return digest }
      guard let digest = generations.old.removeValue(forKey: id) else { return nil }
      insert(digest, of: id, into: &generations)
      return digest
    }
  }

  /// Keeps the digest of an object.
  func insert(_ digest: NodeDigest, of id: ObjectIdentifier) {
    shard(id).generations.withLock { insert(digest, of: id, into: &$0) }
  }

  private func insert(
    _ digest: NodeDigest, of id: ObjectIdentifier, into generations: inout Generations
  ) {
    if generations.young.count >= youngMax {
      generations.old = generations.young
      generations.young = [:]
    }
    generations.young[id] = digest
  }

  /// Forgets the digest of an object.
  func remove(_ id: ObjectIdentifier) {
    shard(id).generations.withLock { generations in
      // Two threads may have kept it, in two generations.
      generations.young[id] = nil
      generations.old[id] = nil
    }
  }
}

/// An object of the tree that a digest is kept for: it stands for a whole branch, and is changed only by
/// the thread that holds its only reference.
protocol DigestOwner: AnyObject {
  /// Calls `body` with the word that says whether there may be a digest: 0 for none.
  func withDigestMark<R>(_ body: (borrowing Atomic<UInt32>) -> R) -> R
}

extension DigestOwner {
  private var hasDigest: Bool { withDigestMark { $0.load(ordering: .acquiring) } != 0 }

  /// The digest, if it was kept.
  var digest: NodeDigest? {
    hasDigest ? DigestCache.shared.digest(of: ObjectIdentifier(self)) : nil
  }

  /// Keeps the digest of the branch as it is. Others may do the same at the same time.
  func keep(_ digest: NodeDigest) {
    DigestCache.shared.insert(digest, of: ObjectIdentifier(self))
    withDigestMark { $0.store(1, ordering: .releasing) }
  }

  /// Forgets the digest. To be called before the object is changed, and when it is freed.
  @inline(__always)
  func forgetDigest() {
    if hasDigest { removeDigest() }
  }

  @inline(never)
  private func removeDigest() {
    DigestCache.shared.remove(ObjectIdentifier(self))
    withDigestMark { $0.store(0, ordering: .relaxed) }
  }
}

extension UnsafeMutablePointer where Pointee == UInt32 {
  /// The word as an atomic one, which has the same layout. All threads access it through this alone.
  @inline(__always)
  func withAtomic<R>(_ body: (borrowing Atomic<UInt32>) -> R) -> R {
    UnsafeMutableRawPointer(self).withMemoryRebound(to: Atomic<UInt32>.self, capacity: 1) {
      body($0.pointee)
    }
  }
}
