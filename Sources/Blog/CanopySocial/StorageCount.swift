internal import CanopyEngine
internal import CanopyTree
internal import Dispatch
internal import Synchronization

/// The bytes of posts, comments and reserved ids in a tree, by user: see `UserStorage`.
enum StorageCount {
  /// The number of posts, of posts with comments, and of reserved ids from which on several threads count.
  static let sharedFrom = 10_000

  /// Returns the bytes of each user. O(size), on up to four threads.
  static func bytes(in root: Node) -> [Key: Int] {
    let size = [Layout.posts, Layout.postComments, Layout.removedPosts]
      .reduce(0) { $0 + root.child($1).childCount }
    return bytes(in: root, parts: size < sharedFrom ? 1 : 4)
  }

  /// Returns the bytes of each user, counted in several parts at the same time. The result is the same for any number.
  static func bytes(in root: Node, parts: Int) -> [Key: Int] {
    let sums = Mutex<[Key: Int]>([:])
    let parts = max(1, parts)
    DispatchQueue.concurrentPerform(iterations: parts) { part in
      var own: [Key: Int] = [:]
      forEachEntry(in: root, part: part, of: parts) { own[$0, default: 0] += $1 }
      sums.withLock { $0.merge(own, uniquingKeysWith: +) }
    }
    return sums.withLock { $0 }
  }

  /// Visits each post, comment and reserved id of a part of the tree, with its user and its bytes.
  private static func forEachEntry(
    in root: Node, part: Int, of parts: Int, _ body: (Key, Int) -> Void
  ) {
    root.child(Layout.posts).forEachChild(inPart: part, of: parts) { _, post in
      if let (uid, bytes) = self.post(post) { body(uid, bytes) }
    }
    root.child(Layout.postComments).forEachChild(inPart: part, of: parts) { _, comments in
      comments.forEachChild { _, comment in
        if let (uid, bytes) = self.comment(comment) { body(uid, bytes) }
        return true
      }
    }
    root.child(Layout.removedPosts).forEachChild(inPart: part, of: parts) { _, reservation in
      if let (uid, bytes) = self.reservation(reservation) { body(uid, bytes) }
    }
  }

  /// Visits the posts, comments and reserved ids that commits wrote, with their users and the differences of their
  /// bytes. Stars, counters and other data cost no more than a look at their paths.
  ///
  /// - Parameters:
  ///   - old: the root before the commits.
  ///   - new: the root after all of them.
  /// - Complexity: O(assignments + written entries × log n); for an assignment above the entries, O(log n) for each entry
  ///   that differs.
  static func forEachDifference(
    from old: Node, to new: Node, by commits: [Commit], _ body: (Key, Int) -> Void
  ) {
    var entries: [Entry] = []
    for commit in commits {
      for assignment in commit.assignments {
        switch writtenPlace(assignment.location) {
        case .other: continue
        case .entry(let entry): if entries.last != entry { entries.append(entry) }
        case .manyEntries: return forEachDifference(from: old, to: new, body)
        }
      }
    }
    // A batch may write an entry several times.
    if entries.count > 1 { entries.sort() }
    var previous: Entry?
    for entry in entries where entry != previous {
      if let (uid, bytes) = entry.count(in: old) { body(uid, -bytes) }
      if let (uid, bytes) = entry.count(in: new) { body(uid, bytes) }
      previous = entry
    }
  }

  /// One post, comment or reserved id.
  private enum Entry: Comparable, Hashable {
    case post(Key)
    case comment(Key, on: Key)
    case reservation(Key)

    var path: Path {
      switch self {
      case .post(let id): Path(keys: [Layout.posts, id])
      case .comment(let comment, let id): Path(keys: [Layout.postComments, id, comment])
      case .reservation(let id): Path(keys: [Layout.removedPosts, id])
      }
    }

    /// Returns the user and the bytes of the entry in a tree; nil if it does not exist.
    func count(in root: Node) -> (Key, Int)? {
      switch self {
      case .post(let id): count(root.child(Layout.posts).child(id))
      case .comment(let comment, let id):
        count(root.child(Layout.postComments).child(id).child(comment))
      case .reservation(let id): count(root.child(Layout.removedPosts).child(id))
      }
    }

    /// Returns the user and the bytes of a version of the entry; nil if it is not one.
    func count(_ node: Node) -> (Key, Int)? {
      switch self {
      case .post: StorageCount.post(node)
      case .comment: StorageCount.comment(node)
      case .reservation: StorageCount.reservation(node)
      }
    }
  }

  /// A location that an assignment writes, as far as the count depends on it.
  private enum WrittenPlace {
    /// The count does not depend on it.
    case other
    /// One entry.
    case entry(Entry)
    /// A location above the entries.
    case manyEntries
  }

  private static func writtenPlace(_ location: Location) -> WrittenPlace {
    let keys = location.path.keys
    guard !location.isPriority else { return .other }
    guard let first = keys.first else { return .manyEntries }
    let entry: Entry
    let depth: Int
    switch first {
    case Layout.posts:
      guard keys.count > 1 else { return .manyEntries }
      (entry, depth) = (.post(keys[1]), 2)
    case Layout.postComments:
      guard keys.count > 2 else { return .manyEntries }
      (entry, depth) = (.comment(keys[2], on: keys[1]), 3)
    case Layout.removedPosts:
      guard keys.count > 1 else { return .manyEntries }
      (entry, depth) = (.reservation(keys[1]), 2)
    default: return .other
    }
    if keys.count > depth {
      switch keys[depth] {
      case Layout.uid, Layout.title, Layout.body, Layout.text: break
      default: return .other
      }
    }
    return .entry(entry)
  }

  /// Visits each post, comment and reserved id in which two versions differ.
  private static func forEachDifference(
    from old: Node, to new: Node, _ body: (Key, Int) -> Void
  ) {
    func visit(_ old: Node, _ new: Node, _ count: (Node) -> (Key, Int)?) {
      for key in changedKeys(from: old, to: new) {
        if let (uid, bytes) = count(old.child(key)) { body(uid, -bytes) }
        if let (uid, bytes) = count(new.child(key)) { body(uid, bytes) }
      }
    }
    visit(old.child(Layout.posts), new.child(Layout.posts), post)
    visit(old.child(Layout.removedPosts), new.child(Layout.removedPosts), reservation)
    let (before, after) = (old.child(Layout.postComments), new.child(Layout.postComments))
    for id in changedKeys(from: before, to: after) {
      visit(before.child(id), after.child(id), comment)
    }
  }

  /// Returns the bytes that assignments add for each user; negative if they remove more.
  ///
  /// - Parameter before: the root without the assignments.
  /// - Complexity: O(assignments × log n).
  static func added(by assignments: [Assignment], over before: Node) -> [Key: Int] {
    var added: [Key: Int] = [:]
    // Each entry that is written, as a whole or in part, with all its parts.
    var changed: [Entry: Node] = [:]
    for assignment in assignments {
      guard case .entry(let entry) = writtenPlace(assignment.location) else { continue }
      if case .reservation = entry { continue }
      let place = entry.path
      guard let path = assignment.location.path.relative(to: place) else { continue }
      changed[entry, default: before.at(place)].set(assignment.value, at: path)
    }
    for (entry, node) in changed {
      if let (uid, bytes) = entry.count(in: before) { added[uid, default: 0] -= bytes }
      if let (uid, bytes) = entry.count(node) { added[uid, default: 0] += bytes }
    }
    return added
  }

  /// All children in the order of their keys, which needs no index.
  private static let children: Query = {
    var query = Query.all
    query.order = .key
    return query
  }()

  /// Returns the keys of the children that differ. O(log n) for each.
  private static func changedKeys(from old: Node, to new: Node) -> Set<Key> {
    old.isIdentical(to: new) ? [] : Set(children.changes(from: old, to: new).map(\.key))
  }

  private static func post(_ node: Node) -> (Key, Int)? {
    Posts.uid(of: node).map { uid in
      (uid, bytes(node, Layout.title) + bytes(node, Layout.body) + UserStorage.entryBytes)
    }
  }

  private static func comment(_ node: Node) -> (Key, Int)? {
    Posts.uid(of: node).map { ($0, bytes(node, Layout.text) + UserStorage.entryBytes) }
  }

  private static func reservation(_ node: Node) -> (Key, Int)? {
    node.stringValue.flatMap { try? Key($0) }.map { ($0, UserStorage.entryBytes) }
  }

  private static func bytes(_ node: Node, _ key: Key) -> Int {
    node.textByteCount(of: key) ?? 0
  }
}
