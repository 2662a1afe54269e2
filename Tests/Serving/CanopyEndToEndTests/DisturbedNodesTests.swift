#if PostgreSQL
  import CanopyTesting
  import CanopyTree
  import Foundation
  import Synchronization
  import Testing

  /// Three nodes on one database while nodes are killed, connections are cut, and the standby becomes the primary.
  /// `Scripts/nodes-test` runs it.
  @Suite(
    .timeLimit(.minutes(600)), .serialized,
    .enabled(if: Disturbances.count != nil && TestDatabase.base != nil, Disturbances.isMissing))
  struct DisturbedNodesTests {
    private static let writers = 8
    private static let listeners = 50

    @Test
    func
      `all nodes and listeners agree after every disturbance, and no write is lost or made twice`()
      async throws
    {
      var random = SeededGenerator(printingSeedFor: "DisturbedNodesTests")
      let count = try #require(Disturbances.count)
      let cluster = try await DisturbedCluster(SeededGenerator(seed: random.next()))
      let seeds = (0..<Self.writers + Self.listeners).map { _ in random.next() }
      let (records, seen) = try await withThrowingTaskGroup(of: Outcome.self) { group in
        for (number, seed) in seeds[..<Self.writers].enumerated() {
          group.addTask {
            var writer = NodeWriter(number, SeededGenerator(seed: seed))
            return .written(try await writer.run(on: cluster))
          }
        }
        for seed in seeds[Self.writers...] {
          group.addTask {
            var listener = NodeListener(SeededGenerator(seed: seed))
            return .heard(try await listener.run(on: cluster))
          }
        }
        group.addTask {
          try await cluster.disturb(count)
          return .nothing
        }
        var records: [String: Int64] = [:]
        var seen: [NodeListener.Heard] = []
        for try await outcome in group {
          switch outcome {
          case .written(let record):
            records.merge(record) { $1 }
            if cluster.noteEnd(ofWriters: Self.writers) { try await cluster.waitUntilQuiet() }
          case .heard(let heard): seen.append(heard)
          case .nothing: break
          }
        }
        return (records, seen)
      }
      try await check(records, seen, cluster)
      try await cluster.stop()
    }

    private enum Outcome: Sendable {
      case written([String: Int64])
      case heard(NodeListener.Heard)
      case nothing
    }

    private func check(
      _ records: [String: Int64], _ seen: [NodeListener.Heard], _ cluster: DisturbedCluster
    ) async throws {
      var hashes: Set<String> = []
      var log: [String: Int64] = [:]
      for node in cluster.all {
        let client = try await node.administrator()
        let last = cluster.lastSequence
        hashes.insert(try await client.request("GET / {\"atLeast\":\(last),\"etag\":true}"))
        let sum = try await client.request("GET /sum {\"atLeast\":\(last)}")
        #expect(sum == "+\(records.count)", "each write is counted once")
        let value = try await client.value("GET /log {\"atLeast\":\(last)}")
        log = Dictionary(
          uniqueKeysWithValues: value.pairs.map { ($0.name, $0.value.integer ?? -1) })
      }
      #expect(hashes.count == 1, "the trees of all nodes are equal")
      let lost = records.keys.count { log[$0] == nil }
      let unknown = log.keys.count { records[$0] == nil }
      var (doubled, misplaced, missed) = (0, 0, 0)
      for heard in seen {
        doubled += heard.doubled
        missed += heard.lost
        missed += records.keys.count { heard.keys[$0] == nil }
        for (key, place) in heard.keys {
          guard let sequence = records[key] else { continue }
          if !place.contains(sequence) { misplaced += 1 }
        }
      }
      let rows = try await cluster.database.query(
        """
        SELECT count(*) - (max(sequence) - min(sequence) + 1) FROM canopy.commits
        WHERE namespace = 'default'
        """)
      print(
        """
        DisturbedNodesTests: \(records.count) acknowledged writes, lost \(lost), doubled \(doubled), not acknowledged \
        \(unknown), missed events \(missed), events out of order \(misplaced); \(seen.count) listeners, \
        \(seen.reduce(0) { $0 + $1.resumed }) times connected again; \(cluster.summary)
        """)
      #expect(rows == "0\n", "the numbers of the commits have no gap")
      #expect(lost == 0 && unknown == 0 && doubled == 0 && missed == 0 && misplaced == 0)
      #expect(records.count > 100)
    }
  }

  /// The settings of a run.
  enum Disturbances {
    static let count = ProcessInfo.processInfo.environment["CANOPY_DISTURBANCES"].flatMap {
      Int($0)
    }
    static let isMissing: Comment = "Scripts/nodes-test runs it"
    /// The command that promotes the standby, and makes a new one; nil for no such disturbances.
    static let failover = ProcessInfo.processInfo.environment["CANOPY_NODES_FAILOVER"]
    /// A library that moves the clock of a process by the seconds in `CLOCK_OFFSET`; nil to leave the clocks.
    static let clock = ProcessInfo.processInfo.environment["CANOPY_NODES_CLOCK"]
  }
#endif
