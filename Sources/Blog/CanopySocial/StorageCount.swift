internal import CanopyEngine
internal import CanopyTree

/// The bytes of posts, comments and reserved ids in a tree, by user: see `UserStorage`.
enum StorageCount {
  /// Visits each post, comment and reserved id, with its user and its bytes. O(size).
  static func forEachEntry(in root: Node, _ body: (Key, Int) -> Void) {
    root.child(Layout.posts).forEachChild { _, post in
      if let (uid, bytes) = self.post(post) { body(uid, bytes) }
      return true
    }
    root.child(Layout.postComments).forEachChild { _, comments in
      comments.forEachChild { _, comment in
        if let (uid, bytes) = self.comment(comment) { body(uid, bytes) }
        return true
      }
      return true
    }
    root.child(Layout.removedPosts).forEachChild { _, reservation in
      if let (uid, bytes) = self.reservation(reservation) { body(uid, bytes) }
      return true
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
    // The entries by the path of their parent, of which a batch writes few.
    var entries: [Path: Set<Key>] = [:]
    for commit in commits {
      for assignment in commit.assignments {
        switch writtenPlace(assignment.location) {
        case .other: continue
        case .entry(let parent, let key): entries[parent, default: []].insert(key)
        case .manyEntries: return forEachDifference(from: old, to: new, body)
        }
      }
    }
    for (parent, keys) in entries {
      let (before, after) = (old.at(parent), new.at(parent))
      for key in keys {
        if let (uid, bytes) = entry(before.child(key), below: parent) { body(uid, -bytes) }
        if let (uid, bytes) = entry(after.child(key), below: parent) { body(uid, bytes) }
      }
    }
  }

  /// A place that an assignment writes, as far as the count depends on it.
  private enum WrittenPlace {
    /// The count does not depend on it.
    case other
    /// One post, comment or reserved id.
    case entry(parent: Path, Key)
    /// A place above the entries.
    case manyEntries
  }

  private static func writtenPlace(_ location: Location) -> WrittenPlace {
    let path = location.path
    guard !location.isPriority else { return .other }
    guard let first = path.keys.first else { return .manyEntries }
    let depth = entryDepth(below: first)
    guard depth > 0 else { return .other }
    guard path.count >= depth else { return .manyEntries }
    let index = path.keys.startIndex + depth
    if path.count > depth {
      switch path.keys[index] {
      case Layout.uid, Layout.title, Layout.body, Layout.text: break
      default: return .other
      }
    }
    return .entry(parent: path.prefix(depth - 1), path.keys[index - 1])
  }

  /// The number of keys in the path of an entry; 0 for other data.
  private static func entryDepth(below first: Key) -> Int {
    switch first {
    case Layout.posts, Layout.removedPosts: 2
    case Layout.postComments: 3
    default: 0
    }
  }

  private static func entry(_ node: Node, below parent: Path) -> (Key, Int)? {
    switch parent.keys.first {
    case Layout.posts: post(node)
    case Layout.postComments: comment(node)
    case Layout.removedPosts: reservation(node)
    default: nil
    }
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
    var changed: [Path: Node] = [:]
    for assignment in assignments {
      guard case .entry(let parent, let key) = writtenPlace(assignment.location),
        parent.keys.first != Layout.removedPosts
      else { continue }
      let place = parent.child(key)
      guard let path = assignment.location.path.relative(to: place) else { continue }
      changed[place, default: before.at(place)].set(assignment.value, at: path)
    }
    for (place, node) in changed {
      guard let parent = place.parent else { continue }
      if let (uid, bytes) = entry(before.at(place), below: parent) {
        added[uid, default: 0] -= bytes
      }
      if let (uid, bytes) = entry(node, below: parent) { added[uid, default: 0] += bytes }
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
