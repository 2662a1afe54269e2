extension Pattern {
  /// Compiles the text between the slashes.
  ///
  /// - Parameter statesLeft: the states that the file may have with this pattern. The states that are
  ///   made are subtracted, also if compiling fails, as they cost time.
  init(_ bytes: [UInt8], ignoresCase: Bool, statesLeft: inout Int) throws(TextProblem) {
    self.init(ignoresCase: ignoresCase)
    var parser = PatternParser(bytes)
    let piece = try parser.parseAll()
    isAnchoredAtStart = parser.isAnchoredAtStart
    isAnchoredAtEnd = parser.isAnchoredAtEnd
    let statesMax = statesLeft
    defer { statesLeft = statesMax - states.count }
    try emit(piece, statesMax)
    try checkRoom(statesMax)
    states.append(.match)
    computeCosts()
  }

  private func checkRoom(_ statesMax: Int) throws(TextProblem) {
    guard states.count < statesMax else {
      throw TextProblem(
        offset: 0,
        message: "expected regular expressions that come to at most "
          + "\(RuleLimits.fileStatesMax) states in the whole file, repetitions written out and equal "
          + "ones counted once")
    }
  }

  private mutating func append(_ state: State, _ statesMax: Int) throws(TextProblem) {
    try checkRoom(statesMax)
    guard states.count < RuleLimits.patternStatesMax else {
      throw TextProblem(
        offset: 0,
        message: "expected a regular expression with at most "
          + "\(RuleLimits.patternStatesMax) states after its repetitions are expanded")
    }
    states.append(state)
  }

  private mutating func emit(_ piece: PatternPiece, _ statesMax: Int) throws(TextProblem) {
    switch piece {
    case .set(let set):
      try append(.scalar(set: sets.count), statesMax)
      sets.append(set)
    case .sequence(let pieces):
      for piece in pieces { try emit(piece, statesMax) }
    case .alternatives(let pieces):
      var jumps: [Int] = []
      for (i, piece) in pieces.enumerated() {
        guard i + 1 < pieces.count else {
          try emit(piece, statesMax)
          break
        }
        let split = states.count
        try append(.split(split + 1, split + 1), statesMax)
        try emit(piece, statesMax)
        jumps.append(states.count)
        try append(.jump(0), statesMax)
        states[split] = .split(split + 1, states.count)
      }
      for jump in jumps { states[jump] = .jump(states.count) }
    case .repeated(let piece, let least, let most):
      for _ in 0..<least {
        let before = states.count
        try emit(piece, statesMax)
        // A piece without states, such as (), needs no repetition.
        if states.count == before { break }
      }
      guard let most else {
        let split = states.count
        try append(.split(split + 1, split + 1), statesMax)
        try emit(piece, statesMax)
        try append(.jump(split), statesMax)
        states[split] = .split(split + 1, states.count)
        return
      }
      var splits: [Int] = []
      for _ in least..<max(least, most) {
        splits.append(states.count)
        try append(.jump(0), statesMax)
        try emit(piece, statesMax)
      }
      for split in splits { states[split] = .split(split + 1, states.count) }
    }
  }
}

/// A part of a parsed regular expression.
indirect enum PatternPiece {
  case set(ScalarSet)
  case sequence([PatternPiece])
  case alternatives([PatternPiece])
  /// A repetition: at least, and at most; nil for unlimited.
  case repeated(PatternPiece, Int, Int?)
}

/// A parser of the dialect that `Pattern` describes.
struct PatternParser {
  private let scalars: [Unicode.Scalar]
  /// The byte offset of each scalar; one more for the end.
  private let offsets: [Int]
  private var index = 0
  private var depth = 0
  private(set) var isAnchoredAtStart = false
  private(set) var isAnchoredAtEnd = false

  init(_ bytes: [UInt8]) {
    scalars = Array(String(decoding: bytes, as: UTF8.self).unicodeScalars)
    var offset = 0
    var offsets = [0]
    for scalar in scalars {
      offset += UTF8.width(scalar)
      offsets.append(offset)
    }
    self.offsets = offsets
  }

  private var next: Unicode.Scalar? { index < scalars.count ? scalars[index] : nil }

  private func problem(_ message: String, at position: Int? = nil) -> TextProblem {
    TextProblem(offset: offsets[min(position ?? index, scalars.count)], message: message)
  }

  private mutating func skip(_ scalar: Unicode.Scalar) -> Bool {
    guard next == scalar else { return false }
    index += 1
    return true
  }

  mutating func parseAll() throws(TextProblem) -> PatternPiece {
    guard !scalars.isEmpty else {
      throw problem("expected a regular expression between the slashes")
    }
    isAnchoredAtStart = skip("^")
    let piece = try parseAlternatives()
    if skip("$"), index == scalars.count { isAnchoredAtEnd = true }
    guard index == scalars.count else {
      throw problem("expected \\ before \(scalars[min(index, scalars.count - 1)]) here")
    }
    // Engines disagree on whether an anchor belongs to the whole or to one alternative; rules must
    // not depend on that.
    if case .alternatives = piece, isAnchoredAtStart || isAnchoredAtEnd {
      throw problem("expected the alternatives in parentheses, as ^ or $ is for all of them", at: 0)
    }
    return piece
  }

  private mutating func parseAlternatives() throws(TextProblem) -> PatternPiece {
    depth += 1
    defer { depth -= 1 }
    guard depth <= RuleLimits.nestingMax else {
      throw problem("expected groups that nest at most \(RuleLimits.nestingMax) levels")
    }
    let start = index
    var alternatives = [try parseSequence()]
    var empty = index == start ? start : nil
    while skip("|") {
      let start = index
      alternatives.append(try parseSequence())
      if index == start { empty = empty ?? start }
    }
    if alternatives.count > 1, let empty {
      throw problem(
        "expected something on both sides of |; (…)? is for a part that may be missing", at: empty)
    }
    return alternatives.count == 1 ? alternatives[0] : .alternatives(alternatives)
  }

  private mutating func parseSequence() throws(TextProblem) -> PatternPiece {
    var pieces: [PatternPiece] = []
    while let scalar = next, scalar != "|", scalar != ")" {
      if scalar == "$" {
        guard index + 1 == scalars.count else {
          throw problem(
            "expected $ only at the end of the regular expression; \\$ is the character")
        }
        break
      }
      pieces.append(try parseRepeated(try parseAtom()))
    }
    return .sequence(pieces)
  }

  private mutating func parseAtom() throws(TextProblem) -> PatternPiece {
    guard let scalar = next else { throw problem("expected a character") }
    index += 1
    switch scalar {
    case ".": return .set(.any)
    case "[": return .set(try parseClass())
    case "(":
      let start = index - 1
      let piece = try parseAlternatives()
      guard skip(")") else { throw problem("expected ) to end this group", at: start) }
      return piece
    case "\\":
      return .set(try parseEscape())
    case "^":
      throw problem(
        "expected ^ only at the beginning of the regular expression; \\^ is the character",
        at: index - 1)
    case "*", "+", "?", "{":
      throw problem("expected something before \(scalar) that is repeated", at: index - 1)
    default:
      return .set(ScalarSet(ranges: [scalar.value...scalar.value]))
    }
  }

  private mutating func parseEscape() throws(TextProblem) -> ScalarSet {
    guard let scalar = next else { throw problem("expected a character after the backslash") }
    index += 1
    if let set = ScalarSet(escape: scalar.value) { return set }
    guard scalar == "_" || !ScalarSet.word.contains(.init(scalar, ignoresCase: false)) else {
      throw problem("expected d, w, s, D, W, S or a sign after the backslash", at: index - 1)
    }
    return ScalarSet(ranges: [scalar.value...scalar.value])
  }

  private mutating func parseClass() throws(TextProblem) -> ScalarSet {
    let start = index - 1
    var ranges: [ClosedRange<UInt32>] = []
    let isNegated = skip("^")
    while true {
      guard let scalar = next else { throw problem("expected ] to end this class", at: start) }
      if scalar == "]" {
        index += 1
        break
      }
      let first = try parseClassMember()
      let isRange =
        next == "-" && index + 1 < scalars.count && scalars[index + 1] != "]"
        && first.single != nil
      guard isRange, let low = first.single else {
        ranges += first.members
        continue
      }
      index += 1
      let last = index
      guard let high = try parseClassMember().single, low <= high else {
        throw problem("expected a range whose ends are characters, the lower one first", at: last)
      }
      ranges.append(low...high)
    }
    guard !ranges.isEmpty else {
      throw problem("expected a character in this class", at: start)
    }
    return ScalarSet(ranges: ranges, isNegated: isNegated)
  }

  private mutating func parseClassMember() throws(TextProblem) -> ScalarSet {
    guard let scalar = next else { throw problem("expected ] to end the class") }
    index += 1
    if scalar == "\\" { return try parseEscape() }
    return ScalarSet(ranges: [scalar.value...scalar.value])
  }

  private mutating func parseRepeated(_ piece: PatternPiece) throws(TextProblem) -> PatternPiece {
    guard let scalar = next else { return piece }
    let start = index
    let result: PatternPiece
    switch scalar {
    case "*": result = .repeated(piece, 0, nil)
    case "+": result = .repeated(piece, 1, nil)
    case "?": result = .repeated(piece, 0, 1)
    case "{":
      index += 1
      let least = try parseCount()
      var most: Int? = least
      if skip(",") { most = next == "}" ? nil : try parseCount() }
      guard next == "}", most ?? least >= least else {
        throw problem("expected {n}, {n,} or {n,m}, the lower number first", at: start)
      }
      result = .repeated(piece, least, most)
    default: return piece
    }
    index += 1
    if let scalar = next, scalar == "*" || scalar == "+" || scalar == "?" || scalar == "{" {
      throw problem("expected no second repetition; whether something matches is all that counts")
    }
    return result
  }

  private mutating func parseCount() throws(TextProblem) -> Int {
    let start = index
    var count = 0
    while let scalar = next, ("0"..."9").contains(scalar) {
      count = count * 10 + Int(scalar.value - 0x30)
      index += 1
      guard count <= RuleLimits.patternRepeatMax else {
        throw problem("expected at most \(RuleLimits.patternRepeatMax) repetitions", at: start)
      }
    }
    guard index > start else { throw problem("expected a number") }
    return count
  }
}

extension ScalarSet {
  /// The only member, if there is just one.
  fileprivate var single: UInt32? {
    guard !isNegated, ranges.count == 1, let range = ranges.first, range.count == 1 else {
      return nil
    }
    return range.lowerBound
  }
}
