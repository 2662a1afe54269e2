/// A compiled regular expression: a nondeterministic automaton that follows all states at once.
///
/// The dialect is that of the Realtime Database: literals, `.` (any character, including line
/// ends), classes `[a-z]` and `[^a-z]`, `\d \w \s` and their opposites, groups, `|`, `* + ?`, `{n}`
/// `{n,}` `{n,m}`, and the flag `i`. `^` stands only at the beginning and `$` only at the end.
/// There are no captures, so matching only decides whether the pattern matches. No pattern is
/// exponential: matching costs O(characters × states), in counted steps.
///
/// Characters are Unicode scalars. `\d` and `\w` are ASCII; `\s` is Unicode's white space.
struct Pattern: Sendable {
  enum State: Sendable {
    /// Consumes a scalar of this set, then continues with the next state.
    case scalar(set: Int)
    /// Continues with both states.
    case split(Int, Int)
    /// Continues with another state.
    case jump(Int)
    /// Ends the pattern.
    case match
  }

  var states: [State] = []
  var sets: [ScalarSet] = []
  var ignoresCase: Bool
  var isAnchoredAtStart = false
  var isAnchoredAtEnd = false

  /// The steps for each state that is tried: more if the sets are large.
  private(set) var stepsPerState = 1

  /// The steps for each scalar, independent of the states: finding its other case takes time.
  private var stepsPerScalar: Int { ignoresCase ? 8 : 0 }

  /// The steps for allocating the state sets.
  private var startSteps: Int { states.count / 16 }

  /// Computes the costs once all sets are there.
  mutating func computeCosts() {
    let rangesMax = sets.reduce(1) { max($0, $1.ranges.count) }
    let bits = Int.bitWidth - rangesMax.leadingZeroBitCount
    stepsPerState = 1 + bits / 4 * (ignoresCase ? 3 : 1)
  }

  /// Whether the pattern occurs in the text; with both anchors, whether it is the whole text. Nil
  /// if too few steps are left.
  ///
  /// - Parameter stepsLeft: is reduced by the states that are tried for each character, and by the
  ///   cost of starting.
  func matches(_ text: String, stepsLeft: inout Int) -> Bool? {
    guard startSteps <= stepsLeft else { return nil }
    stepsLeft -= startSteps
    var current = StateSet(count: states.count)
    var next = StateSet(count: states.count)
    var stack: [Int] = []
    if add(0, to: &current, &stack), !isAnchoredAtEnd { return true }
    for scalar in text.unicodeScalars {
      let steps = current.count * stepsPerState + stepsPerScalar
      guard steps <= stepsLeft else { return nil }
      stepsLeft -= steps
      let variants = ScalarVariants(scalar, ignoresCase: ignoresCase)
      next.removeAll()
      var isMatch = false
      for i in 0..<current.count {
        let state = current[i]
        guard case .scalar(let set) = states[state], sets[set].contains(variants) else { continue }
        if add(state + 1, to: &next, &stack) { isMatch = true }
      }
      if !isAnchoredAtStart, add(0, to: &next, &stack) { isMatch = true }
      if isMatch, !isAnchoredAtEnd { return true }
      if next.count == 0 { return false }
      swap(&current, &next)
    }
    for i in 0..<current.count {
      if case .match = states[current[i]] { return true }
    }
    return false
  }

  /// Adds a state and all states reachable without a character. Returns whether the end is among
  /// them.
  private func add(_ first: Int, to set: inout StateSet, _ stack: inout [Int]) -> Bool {
    var isMatch = false
    stack.append(first)
    while let state = stack.popLast() {
      guard set.insert(state) else { continue }
      switch states[state] {
      case .scalar: break
      case .jump(let target): stack.append(target)
      case .split(let a, let b):
        stack.append(b)
        stack.append(a)
      case .match: isMatch = true
      }
    }
    return isMatch
  }
}

/// A set of states with O(1) removal of all members and O(members) iteration.
private struct StateSet {
  private var members: [Int]
  private var indexes: [Int]
  private(set) var count = 0

  init(count: Int) {
    members = [Int](repeating: 0, count: count)
    indexes = members
  }

  subscript(index: Int) -> Int { members[index] }

  mutating func insert(_ state: Int) -> Bool {
    let index = indexes[state]
    if index < count, members[index] == state { return false }
    indexes[state] = count
    members[count] = state
    count += 1
    return true
  }

  mutating func removeAll() {
    count = 0
  }
}
