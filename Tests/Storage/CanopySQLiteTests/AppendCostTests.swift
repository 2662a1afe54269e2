import CanopyEngine
import CanopyTesting
import CanopyTree
import Foundation
import Testing

@testable import CanopySQLite

/// The writes of a thread that appends commits, as the system counts them in `/proc/thread-self/io`.
struct AppendCostTests {
  private struct Cost {
    var calls: Int
    var bytes: Int
  }

  private func cost() throws -> Cost {
    let text = try String(contentsOfFile: "/proc/thread-self/io", encoding: .utf8)
    func number(_ name: String) throws -> Int {
      let line = try #require(text.split(separator: "\n").first { $0.hasPrefix(name + ": ") })
      return try #require(Int(line.dropFirst(name.count + 2)))
    }
    return Cost(calls: try number("syscw"), bytes: try number("wchar"))
  }

  @Test(arguments: [1, 10, 100])
  func `a batch of commits writes each page of the journal once, and a short tail`(
    commits: Int
  ) async throws {
    let folder = try Folder()
    try await folder.withStore { store in
      var sequence: Int64 = 0
      func batch() throws -> [Commit] {
        try (0..<commits).map { _ in
          sequence += 1
          return try commit(
            sequence, "posts/p\(sequence)", Node(String(repeating: "x", count: 300)))
        }
      }
      var all = 0
      for _ in 0..<50 {
        let before = sequence
        let group = try batch()
        let start = try cost()
        try store.append(group, after: before)
        let end = try cost()
        let bytes = end.bytes - start.bytes
        all += bytes
        // Each page of the log has a head of 24 bytes, and the tail has 72.
        #expect((bytes - 72) % (4_096 + 24) == 0, "\(bytes) bytes")
        // Full pages of rows, and at most three pages more: a page that fills up, its successor, and one above them.
        let pages = (bytes - 72) / (4_096 + 24)
        #expect(pages <= commits * 400 / 4_096 + 4, "\(pages) pages")
        // Two calls for a page of the log, and one for the tail.
        #expect(end.calls - start.calls == 2 * pages + 1)
      }
      let each = all / 50 / commits
      print("a commit of a batch of \(commits):", each, "written bytes")
      #expect(each <= [1: 5_500, 10: 1_700, 100: 550][commits] ?? 0)
    }
  }
}
