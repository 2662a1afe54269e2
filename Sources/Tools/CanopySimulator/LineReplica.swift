import CanopyTree
import CanopyWire

/// A copy that a raw client keeps of a location, from the events of one subscription after the other.
struct LineReplica {
  let path: Path
  private let history: History
  private var tree = Tree()
  /// The commit whose state the copy has; nil before the first state.
  private(set) var sequence: Int64?
  /// The number of the subscription on the present connection.
  private(set) var number: Int64?
  /// The number of events that still belong to the present state, and its commit.
  private var initial: (left: Int64, sequence: Int64)?

  init(_ path: Path, _ history: History) {
    self.path = path
    self.history = history
  }

  /// The line that subscribes.
  var request: String {
    let since = sequence.map { ",\"since\":\($0)" } ?? ""
    return "LISTEN \(path) {\"events\":\"sync\"\(since)}"
  }

  /// The value of the copy.
  var root: Node { tree.root }

  /// Whether the copy follows the commits: it has the state with which its subscription began.
  var isCurrent: Bool { number != nil && initial == nil }

  /// Notes that the connection has ended.
  mutating func disconnect() {
    number = nil
    initial = nil
  }

  /// Notes that the subscription has begun.
  mutating func begin(_ number: Int64, sequence: Int64, initial left: Int64) {
    history.note(seen: sequence, "the subscription to \(path)")
    self.number = number
    initial = (left, sequence)
    endInitial()
  }

  private mutating func endInitial() {
    guard let (left, sequence) = initial, left == 0 else { return }
    initial = nil
    if let known = self.sequence, known > sequence {
      history.fail("a subscription to \(path) since \(known) began with commit \(sequence)")
    }
    self.sequence = sequence
    check()
  }

  /// Takes an event of the subscription.
  mutating func take(_ event: SyncEvent) {
    guard case .put(let assignments) = event.change else {
      history.fail("the subscription to \(path) was cancelled")
      return
    }
    history.note(seen: event.sequence, "an event of \(path)")
    if !event.isPatch { tree = Tree() }
    tree.apply(assignments)
    if let (left, sequence) = initial {
      initial = (left - 1, sequence)
      return endInitial()
    }
    if let sequence, sequence >= event.sequence {
      history.fail("an event of \(path) with commit \(event.sequence) came after \(sequence)")
    }
    sequence = event.sequence
    check()
  }

  private func check() {
    guard let sequence, let root = history.root(after: sequence) else { return }
    if root.at(path) != tree.root {
      history.fail(
        "the copy of \(path) has \(tree.root.shown) after commit \(sequence) and not \(root.at(path).shown)"
      )
    }
  }

  /// Checks that the events of a commit came before the reply to its write.
  func check(reply: Int64) {
    guard isCurrent, let sequence, sequence < reply, let known = history.root(after: sequence),
      let root = history.root(after: reply)
    else { return }
    if known.at(path) != root.at(path) {
      history.fail(
        "the reply to commit \(reply) came before its events for \(path), which has those up to \(sequence)"
      )
    }
  }
}
