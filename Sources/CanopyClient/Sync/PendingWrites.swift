internal import CanopyTree

/// The writes that the server has not confirmed, in order, and where they write.
///
/// Finding what is written at, above and below a place costs O(depth + writes found); adding and
/// removing a write O(depth) for each of its places, however many others there are.
struct PendingWrites: Sendable {
  /// One write.
  struct Record: Sendable {
    /// As it goes to the server; nil for the outcome of a transaction, which is sent otherwise.
    var write: Write?
    /// When it was made, for its timestamps.
    var milliseconds: Int64
    /// What it comes to here, server values resolved.
    var assignments: [Assignment]
    /// Whether listeners see it.
    var isVisible = true
    /// Whether it is on its way to the server on the present connection.
    var isSent = false
  }

  /// One place of one write.
  fileprivate struct Entry: Sendable {
    var id: WriteID
    var assignment: Assignment
    var isVisible: Bool
  }

  private(set) var records: [WriteID: Record] = [:]
  /// By path, ascending by write.
  private var entries = PathTrie<[Entry]>()

  var isEmpty: Bool { records.isEmpty }

  subscript(id: WriteID) -> Record? { records[id] }

  /// Adds a write. Cheapest when it is the newest.
  mutating func add(_ id: WriteID, _ record: Record) {
    records[id] = record
    addEntries(of: record, id)
  }

  /// Removes a write.
  @discardableResult
  mutating func remove(_ id: WriteID) -> Record? {
    guard let record = records.removeValue(forKey: id) else { return nil }
    removeEntries(of: record, id)
    return record
  }

  /// Gives a write another outcome, in its place in the order.
  mutating func replace(_ id: WriteID, _ record: Record) {
    remove(id)
    add(id, record)
  }

  /// Notes whether a write is on its way.
  mutating func setSent(_ id: WriteID, _ isSent: Bool) {
    records[id]?.isSent = isSent
  }

  private mutating func addEntries(of record: Record, _ id: WriteID) {
    for assignment in record.assignments {
      let entry = Entry(id: id, assignment: assignment, isVisible: record.isVisible)
      entries.modify(assignment.location.path) { list in
        if let last = list?.last, id < last.id {
          let index = list?.firstIndex { id < $0.id } ?? 0
          list?.insert(entry, at: index)
        } else {
          list = list ?? []
          list?.append(entry)
        }
      }
    }
  }

  private mutating func removeEntries(of record: Record, _ id: WriteID) {
    for assignment in record.assignments {
      entries.modify(assignment.location.path) { list in
        // The oldest mostly goes first.
        if let index = list?.firstIndex(where: { $0.id == id }) { list?.remove(at: index) }
        if list?.isEmpty == true { list = nil }
      }
    }
  }
}

extension PendingWrites {
  /// Which of the pending writes count.
  struct Scope: Sendable {
    /// Only those before this one.
    var before: WriteID?
    /// Also those that listeners do not see.
    var includesHidden = false

    /// What listeners see.
    static let visible = Scope()

    fileprivate func contains(_ entry: Entry) -> Bool {
      (entry.isVisible || includesHidden) && (before.map { entry.id < $0 } ?? true)
    }
  }

  /// The last write of everything at a place, and what it wrote there; nil when no write did.
  func shadow(_ path: Path, _ scope: Scope = .visible) -> (id: WriteID, node: Node)? {
    var found: Entry?
    entries.forEach(onTheWayTo: path) { _, list in
      let last = list.last { !$0.assignment.location.isPriority && scope.contains($0) }
      if let last, found.map({ $0.id < last.id }) ?? true { found = last }
      return true
    }
    guard let found, let rest = path.relative(to: found.assignment.location.path) else {
      return nil
    }
    return (found.id, found.assignment.value.at(rest))
  }

  /// Whether a write replaces what stands at just this place.
  func hasEntry(at path: Path) -> Bool {
    entries[path]?.contains { $0.isVisible && !$0.assignment.location.isPriority } ?? false
  }

  /// How many keys lead to the uppermost place strictly above a path at which something is written.
  func depthOfFirst(above path: Path) -> Int? {
    var result: Int?
    entries.forEach(onTheWayTo: path) { depth, list in
      if depth < path.count, list.contains(where: \.isVisible) { result = depth }
      return result == nil
    }
    return result
  }

  /// What is written at and below a place, write by write in order, relative to it.
  ///
  /// - Parameter after: the write that replaced everything there, which comes before all of these.
  func groups(
    below path: Path, after: WriteID?, _ scope: Scope = .visible
  ) -> [[Assignment]] {
    guard let trie = entries.below(path) else { return [] }
    var found: [(id: WriteID, assignment: Assignment)] = []
    trie.forEach { list in
      for entry in list where scope.contains(entry) {
        if let after, entry.id <= after { continue }
        let location = entry.assignment.location
        guard let rest = location.path.relative(to: path) else { continue }
        let place = Location(rest, isPriority: location.isPriority)
        found.append((entry.id, Assignment(place, entry.assignment.value)))
      }
    }
    found.sort {
      $0.id != $1.id ? $0.id < $1.id : $0.assignment.location < $1.assignment.location
    }
    var result: [[Assignment]] = []
    var last: WriteID?
    for (id, assignment) in found {
      if id == last {
        result[result.count - 1].append(assignment)
      } else {
        result.append([assignment])
        last = id
      }
    }
    return result
  }

  /// A place with the writes over it.
  ///
  /// - Parameter base: what stands there without them.
  func value(of path: Path, over base: Node, _ scope: Scope = .visible) -> Node {
    let shadow = shadow(path, scope)
    let groups = groups(below: path, after: shadow?.id, scope)
    guard !groups.isEmpty else { return shadow?.node ?? base }
    var tree = Tree(root: shadow?.node ?? base)
    for group in groups { tree.apply(group) }
    return tree.root
  }
}
