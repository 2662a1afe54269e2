internal import DequeModule

/// Names with their owners, in the order of their last use.
///
/// The first name to be dropped is, of the owner that has the most, the one that was used longest ago. Of several
/// owners that have as many, it is the owner who used a name longest ago.
///
/// A value type. Each operation costs O(1) on average.
struct OwnedNames: Sendable {
  private var names: [String?: RecencyOrder<String>] = [:]
  /// The owners by the number of their names.
  private var owners: [Int: RecencyOrder<String?>] = [:]
  /// The number of names of the owner that has the most.
  private var most = 0
  /// The number of names.
  private(set) var count = 0

  /// The number of entries in memory, obsolete ones included.
  var entryCount: Int {
    names.values.reduce(0) { $0 + $1.entryCount }
      + owners.values.reduce(0) { $0 + $1.entryCount }
  }

  /// Notes that a name was used now. Adds it if it is new.
  mutating func use(_ name: String, of owner: String?) {
    let (before, after) = change(owner) { $0.use(name) }
    count += after - before
  }

  /// Removes a name, if there is such a name of this owner.
  mutating func remove(_ name: String, of owner: String?) {
    let (before, after) = change(owner, isUse: false) { $0.remove(name) }
    count += after - before
  }

  /// Removes and returns the first name to be dropped; nil if there is none.
  mutating func removeSurplus() -> String? {
    guard let owner = owners[most]?.first() else { return nil }
    var name: String?
    let (before, after) = change(owner, isUse: false) { names in
      name = names.first()
      if let name { names.remove(name) }
    }
    count += after - before
    return name
  }

  /// Changes the names of an owner. Returns their number before and after.
  private mutating func change(
    _ owner: String?, isUse: Bool = true, _ body: (inout RecencyOrder<String>) -> Void
  ) -> (before: Int, after: Int) {
    let before = names[owner]?.count ?? 0
    body(&names[owner, default: RecencyOrder()])
    let after = names[owner]?.count ?? 0
    if after == 0 { names[owner] = nil }
    if before != after, before > 0 {
      owners[before]?.remove(owner)
      if owners[before]?.count == 0 { owners[before] = nil }
    }
    if after > 0, isUse || before != after { owners[after, default: RecencyOrder()].use(owner) }
    most = max(most, after)
    while most > 0, owners[most] == nil { most -= 1 }
    return (before, after)
  }
}

/// Elements in the order of their last use.
///
/// A value type. Each operation costs O(1) on average.
struct RecencyOrder<Element: Hashable & Sendable>: Sendable {
  /// The number of the last use of each element.
  private var uses: [Element: Int64] = [:]
  /// The uses in order. An entry with another number than `uses` is obsolete.
  private var order: Deque<(element: Element, use: Int64)> = []
  private var lastUse: Int64 = 0

  /// The number of elements.
  var count: Int { uses.count }

  /// The number of entries in memory, obsolete ones included.
  var entryCount: Int { order.count }

  /// Notes that an element was used now. Adds it if it is new.
  mutating func use(_ element: Element) {
    lastUse += 1
    uses[element] = lastUse
    order.append((element, lastUse))
    if order.count > 2 * uses.count + 16 { order.removeAll { uses[$0.element] != $0.use } }
  }

  /// Removes an element, if it is there.
  mutating func remove(_ element: Element) {
    uses[element] = nil
  }

  /// Returns the element that was used longest ago; nil if there is none.
  mutating func first() -> Element? {
    while let first = order.first {
      if uses[first.element] == first.use { return first.element }
      order.removeFirst()
    }
    return nil
  }
}
