/// A regular expression, compiled: a nondeterministic automaton whose states are all tried at once.
///
/// The dialect is that of the Realtime Database: literals, `.` (any character, also the end of a
/// line), classes `[a-z]` and `[^a-z]`, `\d \w \s` and their opposites, groups, `|`, `* + ?`, `{n}`
/// `{n,}` `{n,m}`, and the flag `i`. `^` stands only at the very beginning and `$` only at the very
/// end. Nothing is captured, so it need not be known how something matches, only whether; and no
/// pattern explodes: matching costs O(characters × states), in steps that are counted.
///
/// Characters are Unicode scalars. `\d` and `\w` are ASCII; `\s` is Unicode's white space.
struct Pattern: Sendable {
  enum State: Sendable {
    /// A scalar of this set, then the next state.
    case scalar(set: Int)
    /// Both of two states.
    case split(Int, Int)
    /// Another state.
    case jump(Int)
    /// The end of the pattern.
    case match
  }

  var states: [State] = []
  var sets: [ScalarSet] = []
  var ignoresCase: Bool
  var isAnchoredAtStart = false
  var isAnchoredAtEnd = false

  /// Steps for each state that is tried: more where it takes longer to find out whether a scalar is in a set.
  private(set) var stepsPerState = 1

  /// Steps for each scalar whatever the states: its other case takes a while to find.
  private var stepsPerScalar: Int { ignoresCase ? 8 : 0 }

  /// Steps for the memory that sets of states take.
  private var startSteps: Int { states.count / 16 }

  /// Takes note of the sets, when all are there.
  mutating func measureSets() {
    let rangesMax = sets.reduce(1) { max($0, $1.ranges.count) }
    let bits = Int.bitWidth - rangesMax.leadingZeroBitCount
    stepsPerState = 1 + bits / 4 * (ignoresCase ? 3 : 1)
  }

  /// Whether the pattern occurs in the text; with both anchors, whether it is the text. Nil if that
  /// takes more steps than are left.
  ///
  /// - Parameter stepsLeft: goes down by the states that are tried, character by character, and by what it
  ///   takes to begin.
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

  /// Adds a state and all that are reached from it without a character; true if the end is one.
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

/// A set of states that can be emptied in O(1) and gone through in O(members).
private struct StateSet {
  private var members: [Int]
  private var places: [Int]
  private(set) var count = 0

  init(count: Int) {
    members = [Int](repeating: 0, count: count)
    places = members
  }

  subscript(index: Int) -> Int { members[index] }

  mutating func insert(_ state: Int) -> Bool {
    let place = places[state]
    if place < count, members[place] == state { return false }
    places[state] = count
    members[count] = state
    count += 1
    return true
  }

  mutating func removeAll() {
    count = 0
  }
}
