internal import CanopyTree

/// Goes from location to location of a write, keeping what they have in common.
///
/// Locations come in order, so that those with a common beginning follow each other; what was found
/// out on the way to one is still there for the next.
struct WriteJudge<T: Trace> {
  let tree: RuleTree
  var evaluator: Evaluator<T>

  /// For each place on the way: its index in the tree of rules, and whether a write there is granted.
  private var way: [(place: Int32, isGranted: Bool)] = []

  init(tree: RuleTree, evaluator: Evaluator<T>) {
    self.tree = tree
    self.evaluator = evaluator
    way.reserveCapacity(9)
  }

  mutating func judge(_ locations: some Sequence<Location>) -> Verdict {
    for location in locations {
      // Only a write that writes something is judged at all.
      let denial = (way.isEmpty ? enter(0, isGranted: false) : nil) ?? judge(location)
      // Rules that could not be asked to the end say nothing about the write.
      if evaluator.isExhausted { return .denied(.tooManySteps) }
      if let denial { return .denied(denial) }
    }
    return .allowed
  }

  private mutating func judge(_ location: Location) -> Denial? {
    let keys = location.path.keys
    evaluator.charge(1 + keys.count)
    var depth = 0
    while depth < keys.count, depth < evaluator.keys.count, keys[depth] == evaluator.keys[depth] {
      depth += 1
    }
    evaluator.pop(to: depth)
    way.removeLast(way.count - depth - 1)
    while depth < keys.count {
      let (place, isGranted) = way[depth]
      let next = tree.child(keys[depth], of: place)
      // Where the file names nothing, nothing below is granted or checked that was not above.
      guard next >= 0 else { break }
      evaluator.push(keys[depth])
      depth += 1
      if let denial = enter(next, isGranted: isGranted) { return denial }
    }
    let (place, isGranted) = way[depth]
    guard isGranted else { return .notGranted(.write, at: location.path) }
    guard depth == keys.count, !location.isPriority else { return nil }
    return validateBelow(place)
  }

  /// Asks the rules of the place that the evaluator has come to.
  private mutating func enter(_ index: Int32, isGranted: Bool) -> Denial? {
    let place = tree.places[Int(index)]
    let isGranted = isGranted || (place.write >= 0 && evaluator.holds(place.write))
    way.append((index, isGranted))
    return validate(place)
  }

  private mutating func validate(_ place: RuleTree.Place) -> Denial? {
    if evaluator.isExhausted { return .tooManySteps }
    guard place.validate >= 0, !evaluator.newData.isAbsent, !evaluator.holds(place.validate) else {
      return nil
    }
    let rule = tree.path(of: evaluator.program.rules[Int(place.validate)])
    return .invalid(rule: rule, at: evaluator.keys.reduce(.root) { $0.child($1) })
  }

  /// Asks the `.validate` rules below the place, of what was written there.
  private mutating func validateBelow(_ index: Int32) -> Denial? {
    let place = tree.places[Int(index)]
    guard place.validatesBelow, evaluator.newData.isBranch else { return nil }
    var denial: Denial?
    if place.wildcard < 0 {
      // Only what the file names needs a look, however much else there is.
      for i in place.firstChild..<place.firstChild + place.childCount where denial == nil {
        let child = tree.children[Int(i)]
        evaluator.charge(1)
        denial = validateChild(child.key, child.place)
      }
    } else {
      evaluator.newData.forEachChild { key, _ in
        evaluator.charge(1)
        denial = validateChild(key, tree.child(key, of: index))
        return denial == nil && !evaluator.isExhausted
      }
    }
    return denial
  }

  private mutating func validateChild(_ key: Key, _ index: Int32) -> Denial? {
    let place = tree.places[Int(index)]
    guard place.validate >= 0 || place.validatesBelow else { return nil }
    let depth = evaluator.keys.count
    evaluator.push(key)
    defer { evaluator.pop(to: depth) }
    return validate(place) ?? validateBelow(index)
  }
}
