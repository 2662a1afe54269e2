internal import Synchronization

/// A cache of the digests of branches, kept beside the tree. The keys are the identities of
/// immutable pages, packed branches and boxes.
///
/// Few digests are ever requested, so nodes have no room for them. Each object has only a mark, in
/// spare bytes of its header, that says whether an entry may exist. An object that is freed or
/// changed in place removes its entry, so an entry never belongs to an earlier object with the same
/// identity.
///
/// Holds at most `entriesMax` entries of about 60 bytes. The entries form two generations: when the
/// young one is full it replaces the old one, whose entries are dropped unless they were used
/// since.
final class DigestCache: Sendable {
  /// The cache of the process, as nodes are shared by many trees. About 32 MB when full.
  static let shared = DigestCache(entriesMax: 512 * 1024)

  private struct Generations {
    var young: [ObjectIdentifier: NodeDigest] = [:]
    var old: [ObjectIdentifier: NodeDigest] = [:]
  }

  /// One shard of the cache, with a lock of its own.
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
    // The lowest bits of an address are always the same.
    shards[Int(UInt(bitPattern: id) / 32 % UInt(DigestCache.shardCount))]
  }

  /// Returns the digest of an object, if it is cached.
  func digest(of id: ObjectIdentifier) -> NodeDigest? {
    shard(id).generations.withLock { generations in
      if let digest = generations.young[id] { return digest }
      guard let digest = generations.old.removeValue(forKey: id) else { return nil }
      insert(digest, of: id, into: &generations)
      return digest
    }
  }

  /// Caches the digest of an object.
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

  /// Removes the digest of an object.
  func remove(_ id: ObjectIdentifier) {
    shard(id).generations.withLock { generations in
      // Two threads may have inserted it, each into another generation.
      generations.young[id] = nil
      generations.old[id] = nil
    }
  }
}

/// An object of the tree that can have a cached digest. It represents a whole branch, and only the
/// thread that holds its only reference changes it.
protocol DigestOwner: AnyObject {
  /// Calls `body` with the mark: not zero if a digest may be cached.
  func withDigestMark<R>(_ body: (borrowing Atomic<UInt32>) -> R) -> R
}

extension DigestOwner {
  private var hasDigest: Bool { withDigestMark { $0.load(ordering: .acquiring) } != 0 }

  /// The cached digest, if there is one.
  var digest: NodeDigest? {
    hasDigest ? DigestCache.shared.digest(of: ObjectIdentifier(self)) : nil
  }

  /// Caches the digest of the branch. Safe to call from several threads at once.
  func keep(_ digest: NodeDigest) {
    DigestCache.shared.insert(digest, of: ObjectIdentifier(self))
    withDigestMark { $0.store(1, ordering: .releasing) }
  }

  /// Removes the cached digest. Call before the object changes and when it is freed.
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

/// A header that begins with the mark of a `DigestOwner`.
protocol DigestHeader {
  var digestMark: UInt32 { get }
}

extension UnsafeMutablePointer where Pointee: DigestHeader {
  /// The address of the mark. A pointer to the member by `&` counts as a change of the whole header, and other threads read
  /// the other members meanwhile.
  @inline(__always)
  var digestMark: UnsafeMutablePointer<UInt32> {
    UnsafeMutableRawPointer(self).assumingMemoryBound(to: UInt32.self)
  }
}

extension UnsafeMutablePointer where Pointee == UInt32 {
  /// Accesses the word as an `Atomic`, which has the same layout. All threads must use this method
  /// alone.
  @inline(__always)
  func withAtomic<R>(_ body: (borrowing Atomic<UInt32>) -> R) -> R {
    UnsafeMutableRawPointer(self).withMemoryRebound(to: Atomic<UInt32>.self, capacity: 1) {
      body($0.pointee)
    }
  }
}
