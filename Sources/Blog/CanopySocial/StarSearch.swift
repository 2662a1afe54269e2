public import CanopyEngine
public import CanopyTree

/// The search for the stars of all users whose remaining work is `Erasure.stars`, in all posts.
///
/// The tree has no list of a user's stars. So the search looks at each post once, for all of these users together: the
/// cost does not depend on their number. It reads versions of the tree beside the writer, and the writer gets only the
/// stars that it has found. It also finds the posts of these users that the lists of the users lack. At its end it
/// removes the profiles, and the marks.
///
/// It is kept in memory alone. After a restart a new search begins with the first post.
///
///     while let step = search.next {
///       switch step {
///       case .look: search.look(in: engine.root)
///       case .write:
///         _ = try await engine.transact { [search] in try search.write(in: &$0) }
///         search.noteWritten()
///       }
///     }
public struct StarSearch: Sendable {
  /// The next step of a search.
  public enum Step: Equatable, Sendable {
    /// Looks at the next posts, beside the writer.
    case look
    /// Removes the next stars that were found, or the next profiles.
    case write
  }

  /// A post that has the star of one of the users, or is a post of one of them.
  private struct Found {
    let post: Key
    let uid: Key
  }

  /// The users, with the rounds of their marks: see `Erasure.round(of:)`.
  private let uids: [Key: Int64]
  /// The users whose profiles are not removed.
  private var unfinished: ArraySlice<Key>
  /// The post that was looked at last.
  private var after: Key?
  private var isOver = false
  private var found: ArraySlice<Found> = []

  /// Begins a search for all users whose posts and comments are removed. Nil if there is no such user. O(marks).
  init?(in root: Node) {
    var (uids, inOrder): ([Key: Int64], [Key]) = ([:], [])
    root.child(Layout.erasures).forEachChild { uid, mark in
      if Erasure(mark) == .stars {
        uids[uid] = Erasure.round(of: mark)
        inOrder.append(uid)
      }
      return true
    }
    guard !uids.isEmpty else { return nil }
    self.uids = uids
    unfinished = inOrder[...]
  }

  /// The next step; nil at the end.
  public var next: Step? {
    if !found.isEmpty { return .write }
    if !isOver { return .look }
    return unfinished.isEmpty ? nil : .write
  }

  /// Looks at the next posts. Call it on any thread.
  ///
  /// - Parameters:
  ///   - root: the present tree.
  ///   - scannedMax: the maximum number of posts.
  ///   - lookupsMax: the number of stars from which on it looks at no further post.
  /// - Complexity: O(`scannedMax` + `lookupsMax` + users).
  public mutating func look(
    in root: Node, scannedMax: Int = UnfinishedWork.scannedMax,
    lookupsMax: Int = UnfinishedWork.lookupsMax
  ) {
    let scannedMax = max(1, scannedMax)
    let posts = root.child(Layout.posts).children(after: after, limit: scannedMax)
    var lookups = 0
    for (id, post) in posts {
      after = id
      if let author = Posts.uid(of: post), uids[author] != nil {
        found.append(Found(post: id, uid: author))
      } else {
        let stars = post.child(Layout.stars)
        lookups += min(stars.childCount, uids.count)
        for uid in starred(stars) { found.append(Found(post: id, uid: uid)) }
      }
      if lookups >= lookupsMax { return }
    }
    isOver = posts.count < scannedMax
  }

  /// Returns the users who have one of the stars. Looks up the smaller number: the stars or the users.
  private func starred(_ stars: Node) -> [Key] {
    guard stars.childCount > 0 else { return [] }
    if stars.childCount > uids.count {
      return uids.keys.filter { !stars.child($0).isAbsent }
    }
    var result: [Key] = []
    stars.forEachChild { uid, _ in
      if uids[uid] != nil { result.append(uid) }
      return true
    }
    return result
  }

  /// Decides the removal of the next stars that were found, or at the end that of the next profiles and marks. Writes
  /// nothing if another node has removed them.
  ///
  /// A mark that has changed meanwhile keeps its data: a later search looks for that user again.
  ///
  /// - Returns: the users of whom nothing is left.
  /// - Complexity: O(`entriesMax` × log n).
  public func write(
    in proposal: inout Proposal, entriesMax: Int = UnfinishedWork.entriesMax
  ) throws -> Decision<[Key]> {
    let root = proposal.root
    var removal = Erasure.Removal(
      root: root, now: proposal.now,
      entriesMax: entriesMax - min(entriesMax, found.count, starsMax(entriesMax)))
    var erased: [Key] = []
    if found.isEmpty {
      for uid in unfinished.prefix(usersMax(entriesMax)) where isSearched(uid, in: root) {
        if removal.removeProfile(of: uid) { erased.append(uid) }
      }
    } else {
      var stars: [Key: [Key]] = [:]
      for item in found.prefix(starsMax(entriesMax)) where isSearched(item.uid, in: root) {
        let post = root.child(Layout.posts).child(item.post)
        if post.hasText(of: item.uid, at: Layout.uid) {
          removal.removePost(item.post, by: item.uid)
        } else if !post.child(Layout.stars).child(item.uid).isAbsent {
          stars[item.post, default: []].append(item.uid)
        }
      }
      for (post, uids) in stars { removal.removeStars(of: uids, on: post) }
    }
    let assignments = removal.distinctAssignments
    return Decision(assignments.isEmpty ? nil : try Write(setting: assignments), erased)
  }

  /// Notes that the engine has carried out `write`.
  public mutating func noteWritten(entriesMax: Int = UnfinishedWork.entriesMax) {
    if found.isEmpty {
      unfinished = unfinished.dropFirst(usersMax(entriesMax))
    } else {
      found = found.dropFirst(starsMax(entriesMax))
    }
  }

  private func isSearched(_ uid: Key, in root: Node) -> Bool {
    let mark = root.at(Layout.path(Layout.erasures, uid))
    return Erasure(mark) == .stars && Erasure.round(of: mark) == uids[uid]
  }

  /// The most stars of one commit. Each has two copies.
  private func starsMax(_ entriesMax: Int) -> Int { max(1, entriesMax / 2) }

  /// The most users of one commit. Each has a profile, a name, and up to two marks.
  private func usersMax(_ entriesMax: Int) -> Int { max(1, entriesMax / 4) }
}
