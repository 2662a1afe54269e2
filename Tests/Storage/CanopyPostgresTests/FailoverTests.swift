#if PostgreSQL
  import CanopyEngine
  import CanopyTesting
  import CanopyTree
  import Foundation
  import Synchronization
  import Testing

  @testable import CanopyPostgres

  /// The end of the primary and the promotion of its standby. It ends the server of the other tests, so it runs alone.
  @Suite(
    .timeLimit(.minutes(20)),
    .enabled(
      if: ProcessInfo.processInfo.environment["CANOPY_POSTGRES_FAILOVER"] != nil,
      "Scripts/postgres-test runs it last"))
  struct FailoverTests {
    @Test func `no acknowledged commit is lost or doubled when the standby becomes the primary`()
      async throws
    {
      let command = try #require(
        ProcessInfo.processInfo.environment["CANOPY_POSTGRES_FAILOVER"])
      let namespace = Database.namespace()
      let progress = Progress()
      try await withNodes(["a", "b"], namespace: namespace) { stores async throws in
        try await withThrowingTaskGroup(of: Void.self) { group in
          for (index, store) in stores.enumerated() {
            group.addTask {
              var (last, count): (Int64, Int64) = (0, 0)
              while !progress.isOver {
                count += 1
                let value = Node("\(index)-\(count)")
                let commit = try commit(last + 1, "n", value)
                do {
                  try await store.append([commit], after: last)
                  progress.acknowledge(last + 1, value)
                  last += 1
                } catch JournalError.conflict(let missed) {
                  last = missed.last?.sequence ?? last
                } catch {
                  progress.doubt()
                  let found = try await resolve(store, after: last)
                  if found.first == commit { progress.acknowledge(last + 1, value) }
                  last = found.last?.sequence ?? last
                }
                if count == 100 { progress.half.open() }
              }
            }
          }
          group.addTask {
            await progress.half.pass()
            let before = progress.acknowledged.count
            let process = try Process.run(
              URL(filePath: "/bin/bash"), arguments: ["-c", command])
            process.waitUntilExit()
            #expect(process.terminationStatus == 0)
            while progress.acknowledged.count < before + 200 {
              await stores[0].waitForCommits(after: .max, atMost: .milliseconds(20))
            }
            progress.end()
          }
          try await group.waitForAll()
        }
        let history = try await stores[0].wholeHistory()
        #expect(history.map(\.sequence) == Array(1...Int64(history.count)))
        let values = progress.acknowledged
        for (sequence, value) in values {
          #expect(history[Int(sequence) - 1].assignments.first?.value == value, "\(sequence)")
        }
        #expect(values.count == history.count, "each commit has one writer that knows of it")
        print("failover: \(history.count) commits, \(progress.doubts) appends in doubt")
        #expect(progress.doubts > 0)
        for store in stores { #expect(try await store.problems().isEmpty) }
      }
    }

    /// The progress of the nodes.
    private final class Progress: Sendable {
      private struct State {
        var acknowledged: [Int64: Node] = [:]
        var doubts = 0
        var isOver = false
      }

      private let state = Mutex(State())
      /// Opens when a node has appended some commits.
      let half = Gate()

      var acknowledged: [Int64: Node] { state.withLock { $0.acknowledged } }
      var doubts: Int { state.withLock { $0.doubts } }
      var isOver: Bool { state.withLock { $0.isOver } }

      func acknowledge(_ sequence: Int64, _ value: Node) {
        state.withLock { $0.acknowledged[sequence] = value }
      }

      func doubt() { state.withLock { $0.doubts += 1 } }

      func end() { state.withLock { $0.isOver = true } }
    }

    /// Asks until the store knows.
    private func resolve(_ store: PostgresStore, after last: Int64) async throws -> [Commit] {
      while true {
        do {
          return try await store.resolveAppend(after: last)
        } catch {
          await store.waitForCommits(after: .max, atMost: .milliseconds(50))
        }
      }
    }
  }
#endif
