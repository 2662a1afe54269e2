/// A table of nodes by push id, for many of them: an insertion costs a few nanoseconds while the table is in the cache,
/// and a search reads one position of `entries` and one of a table that is four times smaller.
///
/// Clients choose push ids, so their hashes depend on random numbers.
struct PushIDTable {
  struct Entry {
    fileprivate let high: UInt64
    fileprivate let low: UInt64
    var node: Node
  }

  /// The entries in the sequence in which they were added.
  var entries: [Entry] = []
  /// An entry has one slot: its hash in the upper half, and its number, counted from 1, in the lower half. The hash
  /// selects the slot; if that is taken, the next free one is used. A free slot is 0. At most three quarters of the
  /// slots are taken.
  private var slots: [UInt64]
  private let seed: (UInt64, UInt64)

  /// Creates an empty table.
  ///
  /// - Parameter seed: random numbers that differ for each process. By default, those of Swift's hashes.
  init(seed: (UInt64, UInt64) = (PushIDTable.randomNumber(0), PushIDTable.randomNumber(1))) {
    self.seed = seed
    slots = [UInt64](repeating: 0, count: 16)
  }

  private static func randomNumber(_ number: Int) -> UInt64 {
    UInt64(truncatingIfNeeded: number.hashValue)
  }

  /// Returns the index of the entry of a push id. Adds an entry with an absent node for a new push id.
  ///
  /// - Complexity: O(1) on average.
  mutating func index(_ high: UInt64, _ low: UInt64) -> Int {
    let hash = hash(high, low)
    var place = PushIDTable.place(of: hash, in: slots)
    while slots[place] != 0 {
      if UInt32(truncatingIfNeeded: slots[place] >> 32) == hash {
        let i = Int(UInt32(truncatingIfNeeded: slots[place])) - 1
        if entries[i].high == high, entries[i].low == low { return i }
      }
      place = (place + 1) & (slots.count - 1)
    }
    if entries.count >= slots.count / 4 * 3 {
      grow()
      place = PushIDTable.free(for: hash, in: slots)
    }
    entries.append(Entry(high: high, low: low, node: .absent))
    // The memory ends long before these numbers.
    slots[place] = UInt64(hash) << 32 | UInt64(UInt32(entries.count))
    return entries.count - 1
  }

  private func hash(_ high: UInt64, _ low: UInt64) -> UInt32 {
    let product = (high ^ seed.0).multipliedFullWidth(by: low ^ seed.1)
    return UInt32(truncatingIfNeeded: product.high ^ product.low)
  }

  private static func place(of hash: UInt32, in slots: [UInt64]) -> Int {
    Int(hash) & (slots.count - 1)
  }

  /// Returns the first free position for a hash.
  private static func free(for hash: UInt32, in slots: [UInt64]) -> Int {
    var place = place(of: hash, in: slots)
    while slots[place] != 0 { place = (place + 1) & (slots.count - 1) }
    return place
  }

  private mutating func grow() {
    var larger = [UInt64](repeating: 0, count: slots.count * 2)
    for slot in slots where slot != 0 {
      larger[PushIDTable.free(for: UInt32(truncatingIfNeeded: slot >> 32), in: larger)] = slot
    }
    slots = larger
  }
}
