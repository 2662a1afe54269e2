import CanopyEngine
import CanopySQLite

extension SQLiteStore {
  /// Returns the commits of a range in order, with their before-images.
  func commits(after first: Int64, through last: Int64) async throws -> [Commit] {
    var commits: [Commit] = []
    var next = last
    while true {
      let page = try await history(after: first, through: next) { _ in true }
      guard let read = page.read else { break }
      commits += page.commits
      next = read.lowerBound - 1
    }
    return commits.reversed()
  }
}
