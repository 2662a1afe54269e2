/// Elements that wait for service, and of which the next one is known.
protocol FairMember<Element> {
  associatedtype Element

  init()

  /// The cost of serving the next element, at least 1; nil if there is none.
  var nextCost: Int? { get }

  /// Removes the next element.
  mutating func takeNext() -> Element?
}

/// Members that are served by turns, so that all of them have equal costs. It is self-clocked fair queueing (Golestani,
/// 1994): the next element is the one that would end first if all members were served at once. Its end is the clock of
/// the order. A member that joins begins at this clock, so it gets nothing for the time before.
///
/// If all elements cost the same, members have one turn each, in the order in which they joined or were last served. A
/// cheap element passes an expensive one that began at the same clock. It does not pass one that would end first, because
/// that one has waited for most of its cost. Elements of one member stay in the member's own order.
///
/// Complexity: O(members) to take the next element, O(1) otherwise.
struct FairOrder<Key: Hashable, Member: FairMember>: FairMember {
  typealias Element = Member.Element

  private struct Entry {
    var member: Member
    /// The clock at which the last element of the member ended, or the member joined.
    var end: Int
    /// The cost of the next element.
    var cost: Int
    /// The position among entries that end at the same clock.
    var number: Int
  }

  private var entries: [Key: Entry] = [:]
  private var clock = 0
  private var lastNumber = 0

  init() {}

  private var next: (key: Key, entry: Entry)? {
    entries.min {
      ($0.value.end &+ $0.value.cost, $0.value.number)
        < ($1.value.end &+ $1.value.cost, $1.value.number)
    }.map { ($0.key, $0.value) }
  }

  var nextCost: Int? { next?.entry.cost }

  mutating func takeNext() -> Member.Element? {
    guard let (key, entry) = next else { return nil }
    let end = entry.end &+ entry.cost
    // The next element of a member may be cheaper than one before it that was removed.
    clock = max(clock, end)
    lastNumber &+= 1
    entries[key]?.end = end
    entries[key]?.number = lastNumber
    return update(key) { $0.takeNext() }
  }

  /// Changes a member. One without elements begins empty, and leaves the order when it is empty again.
  mutating func update<R>(_ key: Key, _ body: (inout Member) -> R) -> R {
    var entry = entries.removeValue(forKey: key) ?? joining()
    let result = body(&entry.member)
    if let cost = entry.member.nextCost {
      entry.cost = cost
      entries[key] = entry
    }
    return result
  }

  private mutating func joining() -> Entry {
    lastNumber &+= 1
    return Entry(member: Member(), end: clock, cost: 0, number: lastNumber)
  }
}
