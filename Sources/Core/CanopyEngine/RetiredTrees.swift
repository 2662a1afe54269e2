internal import CanopyTree
internal import Dispatch
internal import Synchronization

/// Frees old versions of the tree, the values that commits replaced and those of refused writes, on a thread of its own
/// if they are large.
///
/// Freeing takes time in proportion to the freed bytes: about 10 ms for a branch of 15 MB with short values. The
/// engine's thread frees small values itself, which is cheaper.
package enum RetiredTrees {
  /// The bytes of JSON of the replaced values from which on another thread frees them. Measuring stops there, so it
  /// costs the writer little however large they are.
  static let largeBytesMin = 4 * 1024

  private static let queue = DispatchQueue(label: "canopy.retired")

  /// Whether the values that some commits replaced are large. O(commits + `largeBytesMin`).
  static func areLarge(_ commits: [Commit]) -> Bool {
    var budget = largeBytesMin
    for commit in commits {
      // Most commits replace leaves, or nothing.
      for assignment in commit.beforeImage ?? [] where assignment.value.isBranch {
        guard assignment.value.fits(budget: &budget) else { return true }
      }
    }
    return false
  }

  /// Whether the values that commits of other engines replaced are large, by the tree before them.
  static func areLarge(_ commits: [[Assignment]], in root: Node) -> Bool {
    var budget = largeBytesMin
    for assignment in commits.joined() where !assignment.location.isPriority {
      let old = root.at(assignment.location.path)
      guard !old.isBranch || old.fits(budget: &budget) else { return true }
    }
    return false
  }

  /// The last references to a version of the tree, to the commits after it and to the requests of their batch.
  struct Content: Sendable {
    var tree: Tree
    var commits: [Commit]
    var requests: [any PendingRequest] = []
  }

  /// Takes references, and drops them on the queue. If they are the last ones, their objects are freed there.
  package static func free<Values: Sendable>(_ values: consuming Values) {
    let retired = Retired(values)
    queue.async { retired.drop() }
  }

  /// The references, which are dropped on the queue.
  private final class Retired<Values: Sendable>: Sendable {
    private let content: Mutex<Values?>

    init(_ content: consuming Values) {
      self.content = Mutex(content)
    }

    func drop() {
      let dropped = content.withLock { $0.take() }
      withExtendedLifetime(dropped) {}
    }
  }
}
