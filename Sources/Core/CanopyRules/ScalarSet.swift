/// A set of Unicode scalars: ranges, or everything else.
///
/// The ranges ascend and do not touch, so a lookup costs O(log ranges).
struct ScalarSet: Sendable {
  let ranges: [ClosedRange<UInt32>]
  let isNegated: Bool

  static let any = ScalarSet(ranges: [], isNegated: true)
  static let digits = ScalarSet(ranges: [0x30...0x39])
  static let word = ScalarSet(ranges: [0x30...0x39, 0x41...0x5A, 0x5F...0x5F, 0x61...0x7A])
  static let space = ScalarSet(ranges: [
    0x09...0x0D, 0x20...0x20, 0x85...0x85, 0xA0...0xA0, 0x1680...0x1680, 0x2000...0x200A,
    0x2028...0x2029, 0x202F...0x202F, 0x205F...0x205F, 0x3000...0x3000,
  ])

  /// Creates the set of an escape such as `\d`; nil for other characters.
  init?(escape: UInt32) {
    switch Unicode.Scalar(escape) {
    case "d": self = .digits
    case "w": self = .word
    case "s": self = .space
    case "D": self = .digits.inverted
    case "W": self = .word.inverted
    case "S": self = .space.inverted
    default: return nil
    }
  }

  /// Creates a set of ranges, in any sequence, which may overlap.
  ///
  /// - Complexity: O(n log n).
  init(ranges: [ClosedRange<UInt32>], isNegated: Bool = false) {
    self.ranges = Self.merged(ranges)
    self.isNegated = isNegated
  }

  private static func merged(_ ranges: [ClosedRange<UInt32>]) -> [ClosedRange<UInt32>] {
    guard ranges.count > 1 else { return ranges }
    var result: [ClosedRange<UInt32>] = []
    for range in ranges.sorted(by: { $0.lowerBound < $1.lowerBound }) {
      // The addition cannot overflow: scalars end at U+10FFFF.
      guard let last = result.last, range.lowerBound <= last.upperBound + 1 else {
        result.append(range)
        continue
      }
      result[result.count - 1] = last.lowerBound...max(last.upperBound, range.upperBound)
    }
    return result
  }

  var inverted: ScalarSet { ScalarSet(ranges: ranges, isNegated: !isNegated) }

  /// The members, also of a negated set.
  var members: [ClosedRange<UInt32>] {
    guard isNegated else { return ranges }
    var members: [ClosedRange<UInt32>] = []
    var start: UInt32 = 0
    for range in ranges {
      if range.lowerBound > start { members.append(start...(range.lowerBound - 1)) }
      start = range.upperBound + 1
    }
    if start <= 0x10FFFF { members.append(start...0x10FFFF) }
    return members
  }

  /// Whether the set contains a scalar in one of its cases.
  ///
  /// - Complexity: O(log ranges).
  func contains(_ variants: ScalarVariants) -> Bool {
    var isInRanges = isInRanges(variants.scalar)
    if variants.hasCase, !isInRanges {
      isInRanges = self.isInRanges(variants.lower) || self.isInRanges(variants.upper)
    }
    return isInRanges != isNegated
  }

  private func isInRanges(_ scalar: UInt32) -> Bool {
    // The number of ranges that begin at or before the scalar.
    var low = 0
    var high = ranges.count
    while low < high {
      let middle = (low + high) / 2
      if ranges[middle].lowerBound <= scalar { low = middle + 1 } else { high = middle }
    }
    return low > 0 && scalar <= ranges[low - 1].upperBound
  }
}

/// A scalar and, if case is ignored, its other case.
struct ScalarVariants {
  let scalar: UInt32
  let lower: UInt32
  let upper: UInt32

  /// Whether the scalar has another case.
  var hasCase: Bool { lower != scalar || upper != scalar }

  init(_ scalar: Unicode.Scalar, ignoresCase: Bool) {
    self.scalar = scalar.value
    guard ignoresCase else {
      lower = scalar.value
      upper = scalar.value
      return
    }
    guard !scalar.isASCII else {
      lower = 0x41...0x5A ~= scalar.value ? scalar.value | 0x20 : scalar.value
      upper = 0x61...0x7A ~= scalar.value ? scalar.value & 0xDF : scalar.value
      return
    }
    lower = Self.single(scalar.properties.lowercaseMapping) ?? scalar.value
    upper = Self.single(scalar.properties.uppercaseMapping) ?? scalar.value
  }

  /// Returns the only scalar of a case mapping; nil for a mapping to several.
  private static func single(_ text: String) -> UInt32? {
    let scalars = text.unicodeScalars
    guard let first = scalars.first, scalars.dropFirst().isEmpty else { return nil }
    return first.value
  }
}
