/// A dictionary with a bounded number of entries. If it is full, a new entry replaces the least recently used one. So the
/// memory for strangers is bounded, whatever their number.
///
/// It has a dictionary from keys to slots, and a doubly linked list through the slots in the order of use. Every operation
/// is O(1). A value type.
package struct RecencyTable<Key: Hashable & Sendable, Value: Sendable>: Sendable {
  private struct Slot: Sendable {
    var key: Key
    var value: Value
    var newer: Int?
    var older: Int?
  }

  /// The maximum number of entries.
  package let capacity: Int
  private var slots: [Slot] = []
  private var places: [Key: Int] = [:]
  private var newest: Int?
  private var oldest: Int?

  /// Creates an empty table for `capacity` entries, at least one.
  package init(capacity: Int) {
    self.capacity = max(1, capacity)
  }

  /// The number of entries.
  package var count: Int { places.count }

  /// The value of the least recently used entry; nil if the table is empty. Does not count as a use.
  package var leastRecent: Value? { oldest.map { slots[$0].value } }

  /// The keys, most recently used first. O(count). For tests.
  var keysByRecency: [Key] {
    Array(
      sequence(state: newest) { place in
        guard let current = place else { return nil }
        place = slots[current].older
        return slots[current].key
      })
  }

  /// The value of a key; nil if it has none. Does not count as a use.
  package subscript(key: Key) -> Value? {
    guard let place = places[key] else { return nil }
    return slots[place].value
  }

  /// Makes an entry the most recently used one, if it exists.
  package mutating func touch(_ key: Key) {
    guard let place = places[key] else { return }
    unlink(place)
    linkAsNewest(place)
  }

  /// Sets the value of a key, as the most recently used entry. A new entry may replace the least recently used one.
  ///
  /// - Returns: the value of the entry that is replaced for lack of room; nil if there is room.
  @discardableResult
  package mutating func set(_ value: Value, for key: Key) -> Value? {
    if let place = places[key] {
      slots[place].value = value
      touch(key)
      return nil
    }
    var replaced: Value?
    if count >= capacity, let place = oldest {
      replaced = slots[place].value
      remove(slots[place].key)
    }
    let place = slots.count
    slots.append(Slot(key: key, value: value))
    places[key] = place
    linkAsNewest(place)
    return replaced
  }

  /// Removes an entry, if it exists.
  package mutating func remove(_ key: Key) {
    guard let place = places.removeValue(forKey: key) else { return }
    unlink(place)
    // Moves the last slot into the gap, so that there are only as many slots as entries.
    let last = slots.count - 1
    if place != last {
      let moved = slots[last]
      slots[place] = moved
      places[moved.key] = place
      relink(from: last, to: place)
    }
    slots.removeLast()
  }

  /// Removes the entries whose keys satisfy a condition. O(count).
  mutating func removeAll(where isUnwanted: (Key) -> Bool) {
    for key in slots.map(\.key).filter(isUnwanted) { remove(key) }
  }

  private mutating func unlink(_ place: Int) {
    let (newer, older) = (slots[place].newer, slots[place].older)
    if let newer { slots[newer].older = older } else { newest = older }
    if let older { slots[older].newer = newer } else { oldest = newer }
    slots[place].newer = nil
    slots[place].older = nil
  }

  private mutating func linkAsNewest(_ place: Int) {
    slots[place].older = newest
    if let newest { slots[newest].newer = place } else { oldest = place }
    newest = place
  }

  /// Updates the links to a slot that has moved.
  private mutating func relink(from old: Int, to new: Int) {
    if let newer = slots[new].newer { slots[newer].older = new } else { newest = new }
    if let older = slots[new].older { slots[older].newer = new } else { oldest = new }
    assert(newest != old && oldest != old)
  }
}
