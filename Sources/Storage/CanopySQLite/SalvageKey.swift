/// The primary key of a row, one part for each column.
package typealias SalvageKey = [SalvageKeyPart]

/// A value of a primary key, ordered as SQLite orders it.
package enum SalvageKeyPart: Equatable {
  case number(Int64)
  case text([UInt8])
  case blob([UInt8])

  /// Whether this value comes before another: first numbers, then texts, then blobs.
  package static func < (one: SalvageKeyPart, other: SalvageKeyPart) -> Bool {
    switch (one, other) {
    case (.number(let one), .number(let other)): one < other
    case (.text(let one), .text(let other)), (.blob(let one), .blob(let other)):
      one.lexicographicallyPrecedes(other)
    case (.number, .text), (.number, .blob), (.text, .blob): true
    case (.text, .number), (.blob, .number), (.blob, .text): false
    }
  }

  /// Whether two values are of one kind.
  package func isLike(_ other: SalvageKeyPart) -> Bool {
    switch (self, other) {
    case (.number, .number), (.text, .text), (.blob, .blob): true
    default: false
    }
  }
}

/// A range of keys, from the lower bound up to the upper one, without it. A bound that is nil is that of the table.
package struct SalvageRange: Equatable {
  var low: SalvageKey?
  var high: SalvageKey?

  /// Whether no key can be in the range.
  var isEmpty: Bool {
    if let low, let high { !SalvageRange.precedes(low, high) } else { false }
  }

  /// Whether a key is in the range.
  func contains(_ key: SalvageKey) -> Bool {
    (low.map { SalvageRange.precedes($0, key) || $0 == key } ?? true)
      && (high.map { SalvageRange.precedes(key, $0) } ?? true)
  }

  /// Returns the keys that are in both ranges.
  func common(with other: SalvageRange) -> SalvageRange {
    var range = self
    if let bound = other.low, low.map({ SalvageRange.precedes($0, bound) }) ?? true {
      range.low = bound
    }
    if let bound = other.high, high.map({ SalvageRange.precedes(bound, $0) }) ?? true {
      range.high = bound
    }
    return range
  }

  /// Whether a key comes before another.
  package static func precedes(_ one: SalvageKey, _ other: SalvageKey) -> Bool {
    for (one, other) in zip(one, other) where one != other { return one < other }
    return false
  }
}
