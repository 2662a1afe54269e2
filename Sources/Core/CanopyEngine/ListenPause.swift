internal import CanopyTree
internal import DequeModule

/// A pause of a listener whose authorization is late.
///
/// A commit may concern the verdicts of so many listeners, or of so costly ones, that asking for all of them would hold
/// the writer. Then the writer asks for some of them, and the other listeners pause: they get no notification before
/// they are authorized again, between later commits. If they may go on, they get all commits of the pause as one change.
public enum ListenPause: Sendable {
  /// The listener takes no notification from now on. Its group still gets those of the view, for other listeners.
  case began
  /// The listener may go on. The change has the commits since the pause began.
  case ended(CommittedChange)
}

/// The locations that were written while listeners pause.
///
/// A value type. It keeps a bounded number of locations, and forgets the earliest commits first.
struct MissedCommits {
  /// The most locations that are kept.
  static let locationsMax = 4 * CommittedChange.locationsMax

  private var commits: Deque<(sequence: Int64, locations: [Location])> = []
  private var count = 0
  /// The last commit that was forgotten.
  private var forgotten = Int64.min

  /// Whether no commit was noted.
  var isEmpty: Bool { commits.isEmpty && forgotten == .min }

  /// Notes a commit. O(its locations), up to the bound.
  mutating func note(_ assignments: [Assignment], at sequence: Int64) {
    let locations =
      assignments.count > CommittedChange.locationsMax
      ? [Location(.root)] : assignments.map(\.location)
    commits.append((sequence, locations))
    count += locations.count + 1
    while count > MissedCommits.locationsMax, let first = commits.popFirst() {
      count -= first.locations.count + 1
      forgotten = first.sequence
    }
  }

  /// Returns the locations of the commits from a number on; the root if they are too many.
  func locations(since sequence: Int64) -> Set<Location> {
    guard sequence > forgotten else { return [Location(.root)] }
    var locations: Set<Location> = []
    for commit in commits.reversed() {
      guard commit.sequence >= sequence else { break }
      locations.formUnion(commit.locations)
    }
    return locations.count > CommittedChange.locationsMax ? [Location(.root)] : locations
  }
}

/// The beginning of a pause: the first commit that is missed, and the tree before it.
struct PauseStart {
  let sequence: Int64
  let root: Node
}
