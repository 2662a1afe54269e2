/// A set of Unicode scalars: ranges, or everything else.
struct ScalarSet: Sendable {
  var ranges: [ClosedRange<UInt32>] = []
  var isNegated = false

  static let any = ScalarSet(isNegated: true)
  static let digits = ScalarSet(ranges: [0x30...0x39])
  static let word = ScalarSet(ranges: [0x30...0x39, 0x41...0x5A, 0x5F...0x5F, 0x61...0x7A])
  static let space = ScalarSet(ranges: [
    0x09...0x0D, 0x20...0x20, 0x85...0x85, 0xA0...0xA0, 0x1680...0x1680, 0x2000...0x200A,
    0x2028...0x2029, 0x202F...0x202F, 0x205F...0x205F, 0x3000...0x3000,
  ])

  /// The set that `\d` and the like stand for.
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

  init(ranges: [ClosedRange<UInt32>] = [], isNegated: Bool = false) {
    self.ranges = ranges
    self.isNegated = isNegated
  }

  var inverted: ScalarSet { ScalarSet(ranges: ranges, isNegated: !isNegated) }

  /// Adds another set; a negated one by the ranges that it does have.
  mutating func formUnion(_ other: ScalarSet) {
    guard other.isNegated else { return ranges.append(contentsOf: other.ranges) }
    var start: UInt32 = 0
    for range in other.ranges {
      if range.lowerBound > start { ranges.append(start...(range.lowerBound - 1)) }
      start = range.upperBound + 1
    }
    ranges.append(start...0x10FFFF)
  }

  func contains(_ variants: ScalarVariants) -> Bool {
    for range in ranges {
      if range.contains(variants.scalar) || range.contains(variants.lower)
        || range.contains(variants.upper)
      {
        return !isNegated
      }
    }
    return isNegated
  }
}

/// A scalar, and where case does not count, the same in the other case.
struct ScalarVariants {
  let scalar: UInt32
  let lower: UInt32
  let upper: UInt32

  init(_ scalar: Unicode.Scalar, ignoresCase: Bool) {
    self.scalar = scalar.value
    guard ignoresCase else {
      lower = scalar.value
      upper = scalar.value
      return
    }
    lower = Self.single(scalar.properties.lowercaseMapping) ?? scalar.value
    upper = Self.single(scalar.properties.uppercaseMapping) ?? scalar.value
  }

  /// Mappings to several characters are not followed.
  private static func single(_ text: String) -> UInt32? {
    let scalars = text.unicodeScalars
    guard let first = scalars.first, scalars.dropFirst().isEmpty else { return nil }
    return first.value
  }
}
