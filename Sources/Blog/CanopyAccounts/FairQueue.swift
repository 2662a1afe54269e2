/// A bounded queue that serves its keys in turn: one element of each key, then the next element of each.
///
///     add a1 a2 a3 b1   →   next: a1 b1 a2 a3
///
/// A key with many elements delays another key by at most one element. No key has more than `perKeyMax` elements. If the
/// queue is full, an element of a key with few elements replaces the newest element of the key with the most.
///
/// A value type. ``next()`` is O(elements of the key); the others are O(keys), of which there are at
/// most `countMax`.
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

  private let countMax: Int
  private let perKeyMax: Int
  private var elements: [Key: [Element]] = [:]
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
    let own = elements[key]?.count ?? 0
    guard own < perKeyMax else { return .refused }
    var replaced: Element?
    if count >= countMax {
      guard let longest = turns.max(by: { length($0) < length($1) }), length(longest) > own + 1
      else { return .refused }
      replaced = remove(at: length(longest) - 1, of: longest)
    }
    if own == 0 { turns.append(key) }
    elements[key, default: []].append(element)
    count += 1
    return replaced.map { .replaced($0) } ?? .added
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
    guard let index = elements[key]?.firstIndex(where: isWanted) else { return nil }
    return remove(at: index, of: key)
  }

  private func length(_ key: Key) -> Int { elements[key]?.count ?? 0 }

  private mutating func remove(at index: Int, of key: Key) -> Element? {
    guard var list = elements[key], list.indices.contains(index) else { return nil }
    let element = list.remove(at: index)
    elements[key] = list.isEmpty ? nil : list
    if list.isEmpty { turns.removeAll { $0 == key } }
    count -= 1
    assert(count == elements.values.reduce(0) { $0 + $1.count } && turns.count == elements.count)
    return element
  }
}
