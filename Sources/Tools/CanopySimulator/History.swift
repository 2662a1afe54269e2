import CanopyEngine
import CanopySocial
import CanopyTree

/// A failed check.
struct Finding: Error, CustomStringConvertible {
  let description: String

  init(_ description: String) {
    self.description = description
  }
}

/// The durable commits, and everything that anybody has seen of them. It is the truth with which the clients are compared.
///
/// `@unchecked Sendable`: the simulation has one thread.
final class History: @unchecked Sendable {
  private(set) var commits: [Commit] = []
  /// The root after each commit; the first is that before all.
  private var roots: [Node]
  /// The last commit of which anybody has seen anything.
  private(set) var seen: Int64 = 0
  /// The origins of the commits, with their numbers.
  private var origins: [String: Int64] = [:]
  /// The commits of each text that was set.
  private var texts: [String: [Int64]] = [:]
  private var tree: Tree
  /// The problems of the first tree: the seeds have posts whose author has no account.
  private let firstProblems: Set<String>
  /// The first failed check.
  private(set) var finding: Finding?

  init(root: Node) {
    roots = [root]
    tree = Tree(root: root)
    firstProblems = Set(SocialCheck.problems(in: root))
  }

  /// Checks that the copies, counts and names of the blog agree in the last tree.
  func checkBlog() {
    for problem in SocialCheck.problems(in: root) where !firstProblems.contains(problem) {
      fail("the blog is not consistent: \(problem)")
    }
  }

  /// Whether a condition holds after a commit later than `first`.
  func holds(after first: Int64, _ condition: (Node) -> Bool) -> Bool {
    guard first >= 0, first < last else { return false }
    return (first + 1...last).contains { root(after: $0).map(condition) ?? false }
  }

  /// The number of the last durable commit.
  var last: Int64 { Int64(commits.count) }

  /// The root after the last durable commit.
  var root: Node { roots.last ?? .absent }

  /// Returns the root after a commit; nil if there is no such commit.
  func root(after sequence: Int64) -> Node? {
    roots.indices.contains(Int(sequence)) ? roots[Int(sequence)] : nil
  }

  /// Notes a failed check.
  func fail(_ description: String) {
    Scheduler.shared.note("FOUND \(description)")
    if finding == nil { finding = Finding(description) }
  }

  /// Adds commits that have become durable.
  func append(_ added: [Commit]) {
    for commit in added {
      if commit.sequence != last + 1 {
        fail("the journal has commit \(commit.sequence) after \(last)")
        return
      }
      commits.append(commit)
      tree.apply(commit.assignments)
      roots.append(tree.root)
      let places = commit.assignments.map { "\($0.location) \($0.value.shown)" }
      Scheduler.shared.note("commit \(commit.sequence) \(places.joined(separator: ", "))")
      if let origin = commit.origin {
        let name = "\(origin.client) \(origin.number)"
        if let earlier = origins[name] {
          fail("write \(name) was made by commit \(earlier), and again by \(commit.sequence)")
        }
        origins[name] = commit.sequence
      }
      for assignment in commit.assignments {
        assignment.value.forEachText { texts[$0, default: []].append(commit.sequence) }
      }
      checkStars(commit)
    }
  }

  /// Returns the commit of a write of a client; nil if there is none.
  func sequence(of client: String, _ number: Int64) -> Int64? { origins["\(client) \(number)"] }

  /// Notes that somebody has seen a commit.
  func note(seen sequence: Int64, _ what: @autoclosure () -> String) {
    if sequence > last { fail("\(what()) is of commit \(sequence), and only \(last) are durable") }
    seen = max(seen, sequence)
  }

  /// Checks a value that was read. Notes the first commit that can have given it as seen.
  ///
  /// - Parameter known: the last commit that anybody had seen when the read began.
  func check(read value: Node, at path: Path, since known: Int64, _ what: @autoclosure () -> String)
  {
    guard known <= last else { return }
    guard let first = (known...last).first(where: { root(after: $0)?.at(path) == value }) else {
      return fail(
        "\(what()) has read \(value.shown), which \(path) has after no commit from \(known) to \(last)"
      )
    }
    seen = max(seen, first)
  }

  /// Returns the commits that set a location to a text.
  func sequences(of text: String) -> [Int64] { texts[text] ?? [] }

  private func checkStars(_ commit: Commit) {
    for copy in Seeds.copies
    where commit.assignments.contains(where: { $0.location.path.hasPrefix(copy) }) {
      let post = root.at(copy)
      let stars = Int64(post.child(Seeds.stars).childCount)
      if post.child(Seeds.starCount).integerValue != stars {
        fail("\(copy) has \(stars) stars and counts \(post.child(Seeds.starCount).shown)")
      }
    }
  }
}

extension Node {
  /// The value as JSON, for the log.
  var shown: String {
    var output = JSONOutput()
    output.append(self)
    let text = output.text
    return text.utf8.count <= 200 ? text : "\(text.prefix(80))… (\(text.utf8.count) bytes)"
  }

  fileprivate func forEachText(_ body: (String) -> Void) {
    if let text = stringValue { body(text) }
    forEachChild { _, child in
      child.forEachText(body)
      return true
    }
  }
}
