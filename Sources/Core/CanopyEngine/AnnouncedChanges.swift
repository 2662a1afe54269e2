/// The groups of authorizations for which something besides the tree has changed, from the moment at which their turn was
/// asked for until it comes: see `Engine.reauthorize`.
///
/// Other work may delay that turn. Until then event loops check the events of these groups. Usually no group waits.
struct AnnouncedChanges {
  private var groups: [ObjectIdentifier: (turns: Int, sequence: Int64)] = [:]

  /// Whether no group waits.
  var isEmpty: Bool { groups.isEmpty }

  /// Adds a change of a group, which waits for a turn.
  ///
  /// - Parameter sequence: the last commit whose events need no check.
  mutating func add(_ group: ObjectIdentifier, after sequence: Int64) {
    let known = groups[group] ?? (turns: 0, sequence: sequence)
    groups[group] = (turns: known.turns + 1, sequence: min(known.sequence, sequence))
  }

  /// Ends the wait for a turn. Returns the last commit whose events need no check; nil if no change was added.
  mutating func endWait(of group: ObjectIdentifier) -> Int64? {
    guard let known = groups[group] else { return nil }
    if known.turns > 1 { groups[group]?.turns = known.turns - 1 } else { groups[group] = nil }
    return known.sequence
  }

  /// Returns the last commit whose events need no check; nil if no change of the group waits.
  func sequence(of group: ObjectIdentifier?) -> Int64? {
    groups.isEmpty ? nil : group.flatMap { groups[$0]?.sequence }
  }
}
