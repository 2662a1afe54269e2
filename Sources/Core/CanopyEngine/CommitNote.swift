internal import CanopyTree

/// The part of a commit that only engines with one journal need: the engine that decided it, and its mark.
///
/// A ``SharedJournal`` stores the text of the note with the commit.
public struct CommitNote: Sendable, Equatable {
  /// A random number that the engine draws at its start. It distinguishes equal commits that two engines decide in one
  /// millisecond.
  public var writer: Int64
  /// See ``Commit/keyTime``.
  public var keyTime: Int64?
  /// The change besides the tree; nil for none.
  public var mark: CommitMark?

  /// Creates a note.
  public init(writer: Int64, keyTime: Int64? = nil, mark: CommitMark? = nil) {
    self.writer = writer
    self.keyTime = keyTime
    self.mark = mark
  }
}

/// A change besides the tree that comes into force on every node at the number of its commit.
public enum CommitMark: Sendable, Equatable {
  /// The rules with this text replace the rules in force; nil stands for the initial rules. The journal keeps the last
  /// rules in the step that stores the commit: see ``JournalState/rules``.
  case rules(String?)
  /// The account may have changed, or some of its logins have ended. Each node checks the logins that it has.
  case account(uid: String)

  /// Whether both are the same change. Texts are compared by their bytes.
  public static func == (a: CommitMark, b: CommitMark) -> Bool {
    switch (a, b) {
    case (.rules(let a), .rules(let b)): a.map { ByteString($0) } == b.map { ByteString($0) }
    case (.account(let a), .account(let b)): a.hasSameBytes(as: b)
    case (.rules, .account), (.account, .rules): false
    }
  }
}

extension CommitNote {
  private static let writerKey: Key = "writer"
  private static let keyTimeKey: Key = "keyTime"
  private static let rulesKey: Key = "rules"
  private static let initialRulesKey: Key = "initialRules"
  private static let accountKey: Key = "account"

  /// The text that a journal stores: a JSON object.
  public var text: String {
    var members: [(Key, Node)] = [(Self.writerKey, Node("\(writer)"))]
    if let keyTime { members.append((Self.keyTimeKey, Node(keyTime))) }
    switch mark {
    case nil: break
    case .rules(nil): members.append((Self.initialRulesKey, true))
    case .rules(let text?): members.append((Self.rulesKey, Node(text)))
    case .account(let uid): members.append((Self.accountKey, Node(uid)))
    }
    var output = JSONOutput()
    output.append(Node(children: members))
    return output.text
  }

  /// Reads the text.
  ///
  /// - Throws: `JournalError.unreadable`, also for a mark of a later version. A node that ignored the mark would allow
  ///   requests that the other nodes deny.
  public init(text: String) throws(JournalError) {
    func unreadable() -> JournalError {
      .unreadable("the note of a commit cannot be read: start the same version on all nodes")
    }
    guard let node = try? Node(json: text, limits: .none),
      let writer = node.child(Self.writerKey).stringValue.flatMap({ Int64($0) })
    else { throw unreadable() }
    self.writer = writer
    node.forEachChild { key, value in
      switch key {
      case Self.keyTimeKey: keyTime = value.integerValue
      case Self.initialRulesKey: mark = .rules(nil)
      case Self.rulesKey: mark = value.stringValue.map { .rules($0) }
      case Self.accountKey: mark = value.stringValue.map { .account(uid: $0) }
      // Keys are text, so the compiler cannot check this switch. The count below finds a key without a case.
      default: break
      }
      return true
    }
    var known = 1
    if keyTime != nil { known += 1 }
    if mark != nil { known += 1 }
    guard known == node.childCount else { throw unreadable() }
  }
}
