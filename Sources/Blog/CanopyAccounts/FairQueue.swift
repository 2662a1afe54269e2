/// A bounded queue that serves its keys in turn: one element of each key, then the next element of each.
///
///     add a1 a2 a3 b1   →   next: a1 b1 a2 a3
///
/// A key with many elements delays another key by at most one element. No key has more than `perKeyMax` elements. If
/// the queue is full, an element of a key with few elements replaces the newest element of the key with the most.
///
/// A known element comes from a sender that has proved something before. In a full queue it replaces an unknown
/// element, from the group of keys with the most unknown elements.
///
/// A value type. ``next()`` is O(elements of the key); the others are O(keys), of which there are at
/// most `countMax`, and ``addKnown(_:for:groupedBy:)`` is O(elements).
struct FairQueue<Key: Hashable & Sendable, Element: Sendable>: Sendable {
  /// The outcome of adding an element.
  enum Addition: Sendable {
    /// The element is in the queue.
    case added
    /// The element is in the queue, and the associated element was removed for it.
    case replaced(Element)
    /// The queue has no room for the element.
    case refused
  }

  private struct Entry: Sendable {
    let element: Element
    let isKnown: Bool
  }

  private let countMax: Int
  private let perKeyMax: Int
  private var elements: [Key: [Entry]] = [:]
  /// The keys with elements, in the order of their turns.
  private var turns: [Key] = []
  /// The number of elements in the queue.
  private(set) var count = 0

  /// Creates an empty queue. A `perKeyMax` below one counts as one, and a `countMax` below zero as zero.
  init(countMax: Int, perKeyMax: Int) {
    self.countMax = max(0, countMax)
    self.perKeyMax = max(1, perKeyMax)
  }

  /// Adds an element after the other elements of its key, if the queue has room.
  mutating func add(_ element: Element, for key: Key) -> Addition {
    add(Entry(element: element, isKnown: false), for: key, replacing: newestOfLongest(for: key))
  }

  /// Adds a known element after the other elements of its key, if the queue has room or another element can be
  /// replaced.
  ///
  /// It replaces the same element as ``add(_:for:)``. If there is no such element, it replaces the newest one that is
  /// not known, of the group with the most of these. If all are known, it replaces one of the group with the most
  /// elements, if that group has at least two more than the group of the new element.
  mutating func addKnown<Group: Hashable>(
    _ element: Element, for key: Key, groupedBy group: (Key) -> Group
  ) -> Addition {
    var victim = newestOfLongest(for: key)
    if count >= countMax, victim == nil {
      let ownCount = turns.reduce(0) { group($1) == group(key) ? $0 + length($1) : $0 }
      victim =
        newestOfLargestGroup(group) { !$0.isKnown }
        ?? newestOfLargestGroup(group, countMin: ownCount + 2) { _ in true }
    }
    return add(Entry(element: element, isKnown: true), for: key, replacing: victim)
  }

  /// Adds an element. In a full queue it replaces the one at a position, if there is one.
  private mutating func add(
    _ entry: Entry, for key: Key, replacing victim: (index: Int, key: Key)?
  ) -> Addition {
    guard length(key) < perKeyMax else { return .refused }
    var replaced: Element?
    if count >= countMax {
      guard let victim else { return .refused }
      replaced = remove(at: victim.index, of: victim.key)
    }
    if elements[key] == nil { turns.append(key) }
    elements[key, default: []].append(entry)
    count += 1
    return replaced.map { .replaced($0) } ?? .added
  }

  /// Returns the position of the newest element of the key with the most elements, in a full queue. Returns nil if that
  /// key does not have at least two more elements than `key`.
  private func newestOfLongest(for key: Key) -> (index: Int, key: Key)? {
    guard count >= countMax, let longest = turns.max(by: { length($0) < length($1) }),
      length(longest) > length(key) + 1
    else { return nil }
    return (length(longest) - 1, longest)
  }

  /// Returns the position of the newest element that satisfies a condition, in the group of keys that has the most of
  /// these. Chooses the key of the group with the most of these, and among such keys the one with the last turn.
  private func newestOfLargestGroup<Group: Hashable>(
    _ group: (Key) -> Group, countMin: Int = 1, where isWanted: (Entry) -> Bool
  ) -> (index: Int, key: Key)? {
    var counts: [Group: Int] = [:]
    var ofKeys: [Key: Int] = [:]
    for key in turns {
      let count = elements[key]?.count(where: isWanted) ?? 0
      ofKeys[key] = count
      counts[group(key), default: 0] += count
    }
    // The first in the order of turns among equal ones.
    guard let most = counts.values.max(), most >= countMin,
      let largest = turns.first(where: { counts[group($0)] == most }).map(group)
    else { return nil }
    let key = turns.reversed().filter { group($0) == largest }.max {
      ofKeys[$0] ?? 0 < ofKeys[$1] ?? 0
    }
    guard let key, let index = elements[key]?.lastIndex(where: isWanted) else { return nil }
    return (index, key)
  }

  /// Removes and returns the next element; nil if the queue is empty.
  mutating func next() -> Element? {
    guard let key = turns.first else { return nil }
    let element = remove(at: 0, of: key)
    // If the key has more elements, its next turn comes after the other keys.
    if elements[key] != nil {
      turns.removeFirst()
      turns.append(key)
    }
    return element
  }

  /// Removes and returns the first element of a key that satisfies a condition; nil if none does.
  mutating func remove(of key: Key, where isWanted: (Element) -> Bool) -> Element? {
    guard let index = elements[key]?.firstIndex(where: { isWanted($0.element) }) else { return nil }
    return remove(at: index, of: key)
  }

  private func length(_ key: Key) -> Int { elements[key]?.count ?? 0 }

  private mutating func remove(at index: Int, of key: Key) -> Element? {
    guard var list = elements[key], list.indices.contains(index) else { return nil }
    let element = list.remove(at: index).element
    elements[key] = list.isEmpty ? nil : list
    if list.isEmpty { turns.removeAll { $0 == key } }
    count -= 1
    assert(count == elements.values.reduce(0) { $0 + $1.count } && turns.count == elements.count)
    return element
  }
}
