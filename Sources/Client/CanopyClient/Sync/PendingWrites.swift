internal import CanopyTree

/// The writes that the server has not confirmed, in order and by location.
///
/// - Complexity: finding the writes at, above and below a location costs O(depth + writes found);
///   adding and removing a write O(depth) for each of its locations, however many others there are.
struct PendingWrites: Sendable {
  /// One pending write.
  struct Record: Sendable {
    /// The write as sent to the server; nil for the result of a transaction, which is sent
    /// differently.
    var write: Write?
    /// The time of the write, for its timestamps, in milliseconds since 1970.
    var milliseconds: Int64
    /// The assignments, with server values resolved locally.
    var assignments: [Assignment]
    /// Whether listeners see the write.
    var isVisible = true
    /// Whether the write was sent on the current connection.
    var isSent = false
  }

  /// One assignment of one write.
  fileprivate struct Entry: Sendable {
    var id: WriteID
    var assignment: Assignment
    var isVisible: Bool
  }

  private(set) var records: [WriteID: Record] = [:]
  /// The assignments by path, ascending by write.
  private var entries = PathTrie<[Entry]>()

  var isEmpty: Bool { records.isEmpty }

  subscript(id: WriteID) -> Record? { records[id] }

  /// Adds a write. Cheapest if it is the newest.
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

  /// Replaces the assignments of a write, which keeps its place in the order.
  mutating func replace(_ id: WriteID, _ record: Record) {
    remove(id)
    add(id, record)
  }

  /// Sets whether a write was sent.
  mutating func setSent(_ id: WriteID, _ isSent: Bool) {
    records[id]?.isSent = isSent
  }

  private mutating func addEntries(of record: Record, _ id: WriteID) {
    for assignment in record.assignments {
      let entry = Entry(id: id, assignment: assignment, isVisible: record.isVisible)
      entries.modify(at: assignment.location.path) { list in
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
      entries.modify(at: assignment.location.path) { list in
        // The oldest write is usually removed first.
        if let index = list?.firstIndex(where: { $0.id == id }) { list?.remove(at: index) }
        if list?.isEmpty == true { list = nil }
      }
    }
  }
}

extension PendingWrites {
  /// A selection of the pending writes.
  struct Scope: Sendable {
    /// The id that limits the selection to earlier writes; nil for all.
    var before: WriteID?
    /// Whether the selection includes writes that listeners do not see.
    var includesHidden = false

    /// The writes that listeners see.
    static let visible = Scope()

    fileprivate func contains(_ entry: Entry) -> Bool {
      (entry.isVisible || includesHidden) && (before.map { entry.id < $0 } ?? true)
    }
  }

  /// Returns the last write that replaces a location or one above it, with its value there; nil if
  /// there is none.
  func shadow(_ path: Path, _ scope: Scope = .visible) -> (id: WriteID, node: Node)? {
    var found: Entry?
    entries.forEach(along: path) { _, list in
      let last = list[..<end(of: list, scope)].last {
        !$0.assignment.location.isPriority && scope.contains($0)
      }
      if let last, found.map({ $0.id < last.id }) ?? true { found = last }
      return true
    }
    guard let found, let rest = path.relative(to: found.assignment.location.path) else {
      return nil
    }
    return (found.id, found.assignment.value.at(rest))
  }

  /// Returns the index after the last entry before `scope.before`.
  private func end(of list: [Entry], _ scope: Scope) -> Int {
    guard let before = scope.before else { return list.count }
    return index(in: list) { $0 < before }
  }

  /// Returns the number of entries at the start of a list whose ids satisfy a condition.
  ///
  /// - Complexity: O(log n).
  private func index(in list: [Entry], _ isBelow: (WriteID) -> Bool) -> Int {
    var (low, high) = (0, list.count)
    while low < high {
      let middle = low + (high - low) / 2
      if isBelow(list[middle].id) { low = middle + 1 } else { high = middle }
    }
    return low
  }

  /// Whether a visible write replaces exactly this location.
  func hasEntry(at path: Path) -> Bool {
    entries[path]?.contains { $0.isVisible && !$0.assignment.location.isPriority } ?? false
  }

  /// Returns the depth of the uppermost written location strictly above a path.
  func depthOfFirst(above path: Path) -> Int? {
    var result: Int?
    entries.forEach(along: path) { depth, list in
      if depth < path.count, list.contains(where: \.isVisible) { result = depth }
      return result == nil
    }
    return result
  }

  /// Returns the assignments at and below a path, grouped by write in order, relative to the path.
  ///
  /// - Parameter after: excludes this write and all earlier ones, which it replaced.
  func groups(
    below path: Path, after: WriteID?, _ scope: Scope = .visible
  ) -> [[Assignment]] {
    guard let trie = entries.subtrie(at: path) else { return [] }
    var found: [(id: WriteID, assignment: Assignment)] = []
    trie.forEach { list in
      let first = after.map { after in index(in: list) { $0 <= after } } ?? 0
      for entry in list[first..<max(first, end(of: list, scope))] where scope.contains(entry) {
        let location = entry.assignment.location
        guard let rest = location.path.relative(to: path) else { continue }
        let relative = Location(rest, isPriority: location.isPriority)
        found.append((entry.id, Assignment(relative, entry.assignment.value)))
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

  /// Returns the value of a location with the pending writes applied.
  ///
  /// - Parameter base: the value without them.
  func value(of path: Path, over base: Node, _ scope: Scope = .visible) -> Node {
    let shadow = shadow(path, scope)
    let groups = groups(below: path, after: shadow?.id, scope)
    guard !groups.isEmpty else { return shadow?.node ?? base }
    var tree = Tree(root: shadow?.node ?? base)
    for group in groups { tree.apply(group) }
    return tree.root
  }
}

/// The plain writes to send on the current connection, oldest first.
///
/// - Complexity: adding and removing cost O(1); restarting on a new connection O(n log n).
struct SendQueue: Sendable {
  private var ids: [WriteID] = []
  private var head = 0

  var first: WriteID? { head < ids.count ? ids[head] : nil }

  mutating func append(_ id: WriteID) {
    ids.append(id)
  }

  mutating func removeFirst() {
    head += 1
    if head == ids.count || head > 1024 && head > ids.count / 2 {
      ids.removeFirst(head)
      head = 0
    }
  }

  mutating func replaceAll(_ all: [WriteID]) {
    ids = all.sorted()
    head = 0
  }
}
