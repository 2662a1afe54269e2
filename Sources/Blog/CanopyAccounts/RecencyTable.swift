/// A dictionary with a bounded number of entries that forgets the least recently touched one to
/// make room: what is kept about strangers must not grow with their number.
///
/// A dictionary to slots, and through the slots a doubly linked list from the most to the least
/// recently touched; O(1) for every operation. A value type.
struct RecencyTable<Key: Hashable & Sendable, Value: Sendable>: Sendable {
  private struct Slot: Sendable {
    var key: Key
    var value: Value
    var newer: Int?
    var older: Int?
  }

  /// The most entries.
  let capacity: Int
  private var slots: [Slot] = []
  private var places: [Key: Int] = [:]
  private var newest: Int?
  private var oldest: Int?

  /// An empty table with room for `capacity` entries, at least one.
  init(capacity: Int) {
    self.capacity = max(1, capacity)
  }

  /// Entries kept.
  var count: Int { places.count }

  /// The keys, most recently touched first. O(count); for tests.
  var keysByRecency: [Key] {
    Array(
      sequence(state: newest) { place in
        guard let current = place else { return nil }
        place = slots[current].older
        return slots[current].key
      })
  }

  /// The entry's value, without touching it.
  subscript(key: Key) -> Value? {
    guard let place = places[key] else { return nil }
    return slots[place].value
  }

  /// Makes an entry the most recently touched, if it is there.
  mutating func touch(_ key: Key) {
    guard let place = places[key] else { return }
    unlink(place)
    linkAsNewest(place)
  }

  /// Sets an entry and touches it; a new one may drive out the least recently touched.
  mutating func set(_ value: Value, for key: Key) {
    if let place = places[key] {
      slots[place].value = value
      touch(key)
      return
    }
    if count >= capacity, let place = oldest { remove(slots[place].key) }
    let place = slots.count
    slots.append(Slot(key: key, value: value))
    places[key] = place
    linkAsNewest(place)
  }

  /// Removes an entry, if it is there.
  mutating func remove(_ key: Key) {
    guard let place = places.removeValue(forKey: key) else { return }
    unlink(place)
    // The last slot moves into the hole, so that slots never outnumber entries.
    let last = slots.count - 1
    if place != last {
      let moved = slots[last]
      slots[place] = moved
      places[moved.key] = place
      relink(from: last, to: place)
    }
    slots.removeLast()
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

  /// Points the neighbours of the slot that has moved to its new place.
  private mutating func relink(from old: Int, to new: Int) {
    if let newer = slots[new].newer { slots[newer].older = new } else { newest = new }
    if let older = slots[new].older { slots[older].newer = new } else { oldest = new }
    assert(newest != old && oldest != old)
  }
}
