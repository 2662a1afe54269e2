import CanopyTesting
import Foundation
import Testing

/// The system calls of a server for small requests. `/proc/PID/io` counts those that read and write, also the ones by
/// which a thread wakes an event loop.
struct SystemCallTests {
  @Test func `a small request costs one read and one write`() async throws {
    let folder = try TemporaryFolder()
    let server = try await ServerProcess(data: folder.path, ["--threads", "1"])
    let client = try await server.connect()
    for line in ["PING", "GET /posts/a/title", "RECENT"] {
      try await client.value(line)
      let before = try server.ioCalls()
      let requests = 400
      for _ in 0..<requests { try await client.value(line) }
      let after = try server.ioCalls()
      // Timers of the server and the log may add a few.
      let most = requests + requests / 10
      #expect((requests...most).contains(after.reads - before.reads), "reads of \(line)")
      #expect((requests...most).contains(after.writes - before.writes), "writes of \(line)")
    }
    try await server.destroy()
  }

  @Test func `requests that are sent together share their reads, writes and synchronizations`()
    async throws
  {
    let folder = try TemporaryFolder()
    let server = try await ServerProcess(data: folder.path, ["--threads", "1"])
    let client = try await server.connect()
    try await client.value("SIGNUP ada@example.org \"engine of 1843\" ada")
    let post = try await client.text("id", "POST \"a title\" \"a text\"")
    let requests = 100
    // The writes of a commit alone are those of its page and of the tail, a wake-up of the event loop, and the reply.
    let most: [String: (reads: Int, writes: Int)] = [
      "PING": (3, 3), "SHOW \(post)": (10, 15), "STAR \(post)": (40, 130),
    ]
    for (line, most) in most {
      let batch = String(repeating: line + "\r\n", count: requests)
      try await client.value(line)
      let batches = 20
      let before = try server.ioCalls()
      for _ in 0..<batches {
        try await client.send(batch)
        for reply in try await client.readLines(requests) {
          expectReply(reply, to: line, hasPrefix: "+")
        }
      }
      let after = try server.ioCalls()
      let (reads, writes) = (after.reads - before.reads, after.writes - before.writes)
      #expect((batches...batches * most.reads).contains(reads), "\(reads) reads of \(line)")
      #expect((batches...batches * most.writes).contains(writes), "\(writes) writes of \(line)")
    }
    try await server.destroy()
  }
}

extension ServerProcess {
  /// Returns the numbers of system calls that have read and written.
  fileprivate func ioCalls() throws -> (reads: Int, writes: Int) {
    let text = try String(contentsOfFile: "/proc/\(pid)/io", encoding: .utf8)
    func number(_ name: String) throws -> Int {
      let line = try #require(text.split(separator: "\n").first { $0.hasPrefix(name + ": ") })
      return try #require(Int(line.dropFirst(name.count + 2)))
    }
    return (try number("syscr"), try number("syscw"))
  }
}
