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
/// The cost of an element may be known only after it was served. Then the member is charged for the rest, and begins
/// its next element that much later, also if it has left the order in between. Until the charge, the clock is close to
/// the beginning of the element that is being served, as in start-time fair queueing (Goyal, Vin and Cheng, 1996). So
/// the clock follows a member that is served alone, and the member is behind the others by its last charges only.
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
  /// The clock at which the last elements of members ended that have left the order. They may be later than the clock.
  private var ends: [Key: Int] = [:]
  /// The number of these ends at which those before the clock are forgotten.
  private var forgetsAt = 1_024
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
    var entry = entries.removeValue(forKey: key) ?? joining(key)
    let result = body(&entry.member)
    if let cost = entry.member.nextCost {
      entry.cost = cost
      entries[key] = entry
    } else {
      keep(entry.end, of: key)
    }
    return result
  }

  private mutating func joining(_ key: Key) -> Entry {
    lastNumber &+= 1
    let end = max(clock, ends.removeValue(forKey: key) ?? clock)
    return Entry(member: Member(), end: end, cost: 0, number: lastNumber)
  }

  /// Charges a member for an element that it was served, besides the cost that was known before.
  mutating func charge(_ key: Key, _ cost: Int) {
    assert(cost >= 0)
    if entries[key] != nil {
      entries[key]?.end &+= cost
    } else {
      keep(max(clock, ends[key] ?? clock) &+ cost, of: key)
    }
  }

  /// Notes that an element of a member is served at once, because no other one waits. The clock moves to its end.
  ///
  /// - Precondition: the order is empty.
  mutating func serveAtOnce(_ key: Key, cost: Int) {
    assert(entries.isEmpty, "an element has passed others that wait")
    clock = max(clock, ends.removeValue(forKey: key) ?? clock) &+ cost
  }

  /// Advances the clock, unless elements wait: then it follows the served ones. So a member that was charged is not
  /// behind for ever although no other one uses the time.
  mutating func advance(by time: Int) {
    if entries.isEmpty { clock &+= time }
  }

  private mutating func keep(_ end: Int, of key: Key) {
    guard end > clock else { return }
    if ends.count >= forgetsAt {
      ends = ends.filter { $0.value > clock }
      // Each search through all of them follows as many additions.
      forgetsAt = max(1_024, 2 * ends.count)
    }
    ends[key] = end
  }
}
