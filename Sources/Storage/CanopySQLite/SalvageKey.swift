/// The primary key of a row, one part for each column.
typealias SalvageKey = [SalvageKeyPart]

/// A value of a primary key, ordered as SQLite orders it.
enum SalvageKeyPart: Equatable {
  case number(Int64)
  case text([UInt8])
  case blob([UInt8])

  /// Whether this value comes before another. Precondition: both are of one kind.
  static func < (one: SalvageKeyPart, other: SalvageKeyPart) -> Bool {
    switch (one, other) {
    case (.number(let one), .number(let other)): one < other
    case (.text(let one), .text(let other)), (.blob(let one), .blob(let other)):
      one.lexicographicallyPrecedes(other)
    default: false
    }
  }
}

extension SalvageKey {
  /// Returns keys between two others, in order, at which a range is cut.
  ///
  /// Between two keys this is one in the middle. If a bound is unknown, the distances from the other bound double: for
  /// numbers as such, and for texts with each byte that is cut off. Such cuts are also made after the text of a row.
  ///
  /// - Parameters:
  ///   - isRow: whether the lower bound is the key of a row.
  ///   - least: the least key.
  static func cuts(
    after low: SalvageKey?, isRow: Bool = false, before high: SalvageKey?, least: SalvageKey
  ) -> [SalvageKey] {
    var common = 0
    if let low, let high {
      while common < least.count, low[common] == high[common] { common += 1 }
    }
    guard common < least.count else { return [] }
    let start = (low ?? []).prefix(common)
    return SalvageKeyPart.cuts(
      after: low?[common], isRow: isRow, before: high?[common], kind: least[common]
    ).map { Array(start) + [$0] + Array(least.dropFirst(common + 1)) }.filter { key in
      (low.map { precedes($0, key) } ?? true) && (high.map { precedes(key, $0) } ?? true)
    }
  }

  private static func precedes(_ one: SalvageKey, _ other: SalvageKey) -> Bool {
    for (one, other) in zip(one, other) where one != other { return one < other }
    return false
  }
}

extension SalvageKeyPart {
  fileprivate static func cuts(
    after low: SalvageKeyPart?, isRow: Bool, before high: SalvageKeyPart?, kind: SalvageKeyPart
  ) -> [SalvageKeyPart] {
    switch kind {
    case .number: numbers(low?.number, high?.number).map { .number($0) }
    case .text: byteCuts(low?.bytes, isRow, high?.bytes).map { .text($0) }
    case .blob: byteCuts(low?.bytes, isRow, high?.bytes).map { .blob($0) }
    }
  }

  private var number: Int64? { if case .number(let number) = self { number } else { nil } }

  private var bytes: [UInt8]? {
    switch self {
    case .text(let bytes), .blob(let bytes): bytes
    case .number: nil
    }
  }

  private static func numbers(_ low: Int64?, _ high: Int64?) -> [Int64] {
    let distances = (0..<62).map { Int64(1) << $0 }
    func valid(_ sum: (partialValue: Int64, overflow: Bool)) -> Int64? {
      sum.overflow ? nil : sum.partialValue
    }
    switch (low, high) {
    case (let low?, let high?): return [(low >> 1) + (high >> 1) + ((low | high) & 1)]
    case (let low?, nil): return distances.compactMap { valid(low.addingReportingOverflow($0)) }
    case (nil, let high?):
      return distances.reversed().compactMap { valid(high.subtractingReportingOverflow($0)) }
    case (nil, nil): return [0] + distances
    }
  }

  private static func byteCuts(_ low: [UInt8]?, _ isRow: Bool, _ high: [UInt8]?) -> [[UInt8]] {
    switch (low, high) {
    case (let low?, let high?):
      isRow
        ? (following(low) + [middle(low, high)]).sorted { $0.lexicographicallyPrecedes($1) }
        : [middle(low, high)]
    case (let low?, nil): following(low)
    case (nil, let high?): high.indices.map { Array(high[..<$0]) }
    case (nil, nil): (0...UInt8.max).map { [$0] }
    }
  }

  /// Returns the texts that follow all that begin as a text does, from its whole length down to one byte.
  private static func following(_ low: [UInt8]) -> [[UInt8]] {
    low.indices.reversed().filter { low[$0] < .max }.map { Array(low[..<$0]) + [low[$0] + 1] }
  }

  /// Returns the middle of two texts, with six bytes after those that they have in common.
  private static func middle(_ low: [UInt8], _ high: [UInt8]) -> [UInt8] {
    let common = zip(low, high).prefix { $0 == $1 }.count
    func number(_ bytes: [UInt8]) -> UInt64 {
      let part = bytes.dropFirst(common).prefix(6)
      return (part + Array(repeating: 0, count: 6 - part.count)).reduce(0) {
        $0 << 8 | UInt64($1)
      }
    }
    let middle = (number(low) + number(high) + 1) / 2
    return Array(low.prefix(common))
      + (0..<6).map { UInt8(truncatingIfNeeded: middle >> (8 * (5 - $0))) }
  }
}
