package import CanopyTree
internal import DequeModule

/// Names with their owners and weights, in the order of their last use.
///
/// The first name to drop belongs to the owner whose names weigh the most. It is the one that this owner used longest
/// ago. If several owners weigh the same, the first of them is the one that used a name longest ago.
///
/// The caller keeps the weight of each name, and reports how it changes.
///
/// A value type. Each operation costs O(1) on average.
package struct OwnedNames: Sendable {
  private struct Owner {
    var names = RecencyOrder<ByteString>()
    /// The sum of the weights of the names.
    var weight = 0
  }

  private var names: [ByteString?: Owner] = [:]
  /// The owners by the weight of their names.
  private var owners: [Int: RecencyOrder<ByteString?>] = [:]
  /// The weight of the owner whose names weigh the most.
  private var most = 0
  /// The number of names.
  package private(set) var count = 0
  /// The sum of all weights.
  private(set) var weight = 0

  /// Creates an empty collection.
  package init() {}

  /// The number of entries in memory, obsolete ones included.
  var entryCount: Int {
    names.values.reduce(0) { $0 + $1.names.entryCount }
      + owners.values.reduce(0) { $0 + $1.entryCount }
  }

  /// Notes that a name was used now, and that its weight has changed. Adds it if it is new.
  ///
  /// - Parameter change: the whole weight of a new name, at least 1.
  package mutating func use(_ name: ByteString, of owner: ByteString?, changing change: Int) {
    update(owner, isUse: true) {
      $0.names.use(name)
      $0.weight += change
    }
  }

  /// Notes that the weight of a name of an owner has changed, without a use.
  mutating func changeWeight(of owner: ByteString?, by change: Int) {
    guard change != 0 else { return }
    update(owner, isUse: false) { $0.weight += change }
  }

  /// Removes a name, if there is such a name of this owner.
  ///
  /// - Parameter weight: the weight of the name.
  package mutating func remove(_ name: ByteString, of owner: ByteString?, weight: Int) {
    update(owner, isUse: false) {
      if $0.names.remove(name) { $0.weight -= weight }
    }
  }

  /// Returns the first name to drop; nil when there are no names.
  package mutating func first() -> ByteString? {
    guard let owner = owners[most]?.first() else { return nil }
    return names[owner]?.names.first()
  }

  /// Changes the names of an owner, and their weight.
  private mutating func update(
    _ owner: ByteString?, isUse: Bool, _ body: (inout Owner) -> Void
  ) {
    let (before, countBefore) = (names[owner]?.weight ?? 0, names[owner]?.names.count ?? 0)
    body(&names[owner, default: Owner()])
    let (after, countAfter) = (names[owner]?.weight ?? 0, names[owner]?.names.count ?? 0)
    assert((after > 0) == (countAfter > 0), "each name has a weight")
    count += countAfter - countBefore
    weight += after - before
    if countAfter == 0 { names[owner] = nil }
    if before != after, before > 0 {
      owners[before]?.remove(owner)
      if owners[before]?.count == 0 { owners[before] = nil }
    }
    if after > 0, isUse || before != after { owners[after, default: RecencyOrder()].use(owner) }
    most = max(most, after)
    // Each step down follows a step up.
    while most > 0, owners[most] == nil { most -= 1 }
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

  /// Removes an element. Returns false if it is not there.
  @discardableResult
  mutating func remove(_ element: Element) -> Bool {
    uses.removeValue(forKey: element) != nil
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
