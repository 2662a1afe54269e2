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

  /// Visits each post, comment and reserved id in which two versions differ, with its user and the difference of its bytes.
  ///
  /// - Complexity: O(log n) for each of them.
  static func forEachDifference(
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
    var entries: [Path: Node] = [:]
    for assignment in assignments where !assignment.location.isPriority {
      let path = assignment.location.path
      let depth =
        switch path.keys.first {
        case Layout.posts: 2
        case Layout.postComments: 3
        default: 0
        }
      guard depth > 0, path.count >= depth else { continue }
      let place = path.keys.prefix(depth).reduce(Path.root) { $0.child($1) }
      guard let rest = path.relative(to: place) else { continue }
      entries[place, default: before.at(place)].set(assignment.value, at: rest)
    }
    var added: [Key: Int] = [:]
    for (place, entry) in entries {
      let count = place.count == 2 ? post : comment
      if let (uid, bytes) = count(before.at(place)) { added[uid, default: 0] -= bytes }
      if let (uid, bytes) = count(entry) { added[uid, default: 0] += bytes }
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
    node.child(key).stringValue?.utf8.count ?? 0
  }
}
