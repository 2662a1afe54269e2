public import CanopyEngine
public import CanopyTree

/// Profiles and user names.
public enum Users {
  /// Returns the key of the user with a uid. O(log users).
  ///
  /// - Throws: `SocialError.notFound`.
  public static func find(uid text: String, in root: Node) throws(SocialError) -> Key {
    guard let uid = try? Key(text), profile(uid, in: root) != nil else { throw .noUser }
    return uid
  }

  /// Returns the uid of the user with a name, in any case. O(log users).
  ///
  /// - Throws: `SocialError.notFound`.
  public static func find(username name: String, in root: Node) throws(SocialError) -> Key {
    guard let key = try? Key(name.asciiLowercased),
      let text = root.child(Layout.usernames).child(key).stringValue, let uid = try? Key(text)
    else { throw .noUser }
    return uid
  }

  /// Returns the user name of a uid; nil if the user does not exist.
  public static func username(of uid: Key, in root: Node) -> String? {
    profile(uid, in: root)?.child(Layout.username).stringValue
  }

  private static func profile(_ uid: Key, in root: Node) -> Node? {
    let node = root.child(Layout.users).child(uid)
    return node.isAbsent ? nil : node
  }

  /// Creates the profile of a new account.
  ///
  /// Precondition: `Texts.checkUsername` accepts the name.
  ///
  /// - Throws: `SocialError.conflict` if the name is taken or the account has a profile.
  public static func claim(
    _ username: String, for uid: Key, in proposal: inout Proposal
  ) throws -> Decision<Void> {
    assert((try? Texts.checkUsername(username)) != nil, "the name was checked")
    // A second profile would leave the first name taken forever.
    guard profile(uid, in: proposal.root) == nil else {
      throw SocialError.conflict("this account has a user name already; change it with RENAME")
    }
    let key = try nameKey(username, for: uid, in: proposal.root)
    let profile = Node(children: [
      (Layout.username, Node(username)), (Layout.createdAt, Node(proposal.now)),
    ])
    let write = try Write([
      .init(Layout.path(Layout.users, uid), profile),
      .init(Layout.path(Layout.usernames, key), Node(uid.text)),
    ])
    return Decision(write, ())
  }

  /// Renames a user, in the profile and in all posts and comments.
  ///
  /// The commit changes at most `entriesMax` posts and comments. If there are more, it writes `/renames/<uid>`, and `UnfinishedWork`
  /// changes the others. Another renaming in the meantime restarts that work with the newest name. A missing profile (an
  /// import may not have contained it) is created.
  ///
  /// Precondition: `Texts.checkUsername` accepts the name.
  ///
  /// - Parameters:
  ///   - entriesMax: the maximum number of posts and comments that the commit changes.
  ///   - hasBuiltInRules: whether the built-in rules are in force. Under other rules `/renames` may have data of clients,
  ///     so nothing in it is removed.
  ///   - wait: returns the milliseconds to wait, or nil to continue, from the time and a function that counts the posts and
  ///     comments to change.
  /// - Complexity: O(`entriesMax` × log n).
  /// - Throws: `SocialError.conflict` if the name is taken; `rateLimited` if `wait` returns a time.
  public static func rename(
    _ uid: Key, to username: String, entriesMax: Int = UnfinishedWork.entriesMax,
    hasBuiltInRules: Bool = true, in proposal: inout Proposal,
    wait: (_ entries: @escaping () -> Int, _ now: Int64) -> Int64? = { _, _ in nil }
  ) throws -> Decision<Void> {
    assert((try? Texts.checkUsername(username)) != nil, "the name was checked")
    let (root, now) = (proposal.root, proposal.now)
    var assignments = try naming(
      uid, username, before: root, after: root, hasNewName: true, entriesMax: entriesMax,
      removesMark: hasBuiltInRules
    ) { wait($0, now) }
    let profile = Layout.path(Layout.users, uid)
    assignments.append(Assignment(profile.child(Layout.username), Node(username)))
    if root.at(profile).isAbsent {
      assignments.append(Assignment(profile.child(Layout.createdAt), Node(now)))
    }
    return Decision(try Write(setting: assignments), ())
  }

  /// Returns the assignments that belong to a name in a profile: the entry in `/usernames`, and if the name is new, its
  /// changes in at most `entriesMax` posts and comments, and the mark in `/renames` if there are more.
  ///
  /// - Parameters:
  ///   - before: the root without the name; it decides whether the name is free.
  ///   - after: the root whose posts and comments get the name.
  ///   - removesMark: whether the mark of an earlier renaming is removed if nothing is left to do.
  ///   - wait: returns the milliseconds to wait, or nil to continue, from a function that counts the posts and comments to
  ///     change.
  /// - Throws: `SocialError.conflict` if another user has the name; `rateLimited` if `wait` returns a time.
  /// - Complexity: O(`entriesMax` × log n).
  static func naming(
    _ uid: Key, _ name: String, before: Node, after: Node, hasNewName: Bool,
    entriesMax: Int = UnfinishedWork.entriesMax, removesMark: Bool = true,
    wait: (_ entries: @escaping () -> Int) -> Int64?
  ) throws -> [Assignment] {
    let key = try nameKey(name, for: uid, in: before)
    var result: [Assignment] = []
    if hasNewName {
      if let wait = wait({ Renaming.entries(of: uid, in: before) }) {
        throw SocialError.rateLimited(milliseconds: wait)
      }
      let (changes, rest) = Renaming.posts(after: nil).step(
        of: uid, named: Node(name), in: after, entriesMax: entriesMax)
      result = changes
      let mark = Layout.path(Layout.renames, uid)
      if rest != nil || removesMark && !before.at(mark).isAbsent {
        result.append(Assignment(mark, rest?.node ?? .absent))
      }
    }
    let oldKey = username(of: uid, in: before).flatMap { try? Key($0.asciiLowercased) }
    if let oldKey, oldKey != key, before.child(Layout.usernames).child(oldKey).hasText(of: uid) {
      result.append(Assignment(Layout.path(Layout.usernames, oldKey), .absent))
    }
    let claim = Layout.path(Layout.usernames, key)
    if !before.at(claim).hasText(of: uid) {
      result.append(Assignment(claim, Node(uid.text)))
    }
    return result
  }

  /// Returns the key of a name in `/usernames`. Throws `conflict` if another user has the name.
  private static func nameKey(_ name: String, for uid: Key, in root: Node) throws -> Key {
    let key = try Key(name.asciiLowercased)
    let holder = root.child(Layout.usernames).child(key)
    guard holder.stringValue == nil || holder.hasText(of: uid) else {
      throw SocialError.conflict("the user name \(name) is taken; choose another")
    }
    return key
  }
}

extension Users {
  /// Returns the uids of users whose names begin with a text, in any case of letters, in the order of the names.
  ///
  /// A name that is a number is found only by the whole name, because numbers have an order of their own.
  ///
  /// - Parameters:
  ///   - prefix: the beginning of the names.
  ///   - limit: the most uids.
  /// - Complexity: O(log users + limit).
  public static func search(prefix: String, limit: Int, in root: Node) -> [Key] {
    let prefix = prefix.asciiLowercased
    let names = root.child(Layout.usernames)
    // A space precedes all characters of names.
    guard let whole = try? Key(prefix), let start = try? Key(prefix + " ") else { return [] }
    var found = [(key: whole, node: names.child(whole))]
    found += names.children(after: start, limit: limit).prefix {
      $0.key.text.hasBytePrefix(prefix)
    }
    return found.compactMap { $0.node.stringValue.flatMap { try? Key($0) } }.prefix(limit).map(
      \.self)
  }
}
