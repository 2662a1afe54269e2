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
            if cluster.noteEnd(ofWriters: Self.writers) { try await cluster.settle() }
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

  /// The three nodes, and the proxies between each of them and the two servers of the database.
  final class DisturbedCluster: Sendable {
    private struct State {
      /// The running nodes; nil for one that was killed.
      var nodes: [NodeServer?] = []
      var random: SeededGenerator
      var acknowledged = 0
      var isOver = false
      var writersEnded = 0
      /// The number of the last commit, when all writers have ended.
      var last: Int64?
      var kinds: [String: Int] = [:]
    }

    let database: TestDatabase
    private let folders: [TemporaryFolder]
    private let proxies: [[Proxy]]
    private let urls: [String]
    private let state: Mutex<State>

    init(_ random: SeededGenerator) async throws {
      database = try await TestDatabase()
      state = Mutex(State(random: random))
      let ports = database.url.matches(of: /:(\d+)/).compactMap { UInt16($0.1) }
      let name = try #require(database.url.split(separator: "/").last)
      proxies = try (0..<3).map { _ in try ports.map { try Proxy(to: $0) } }
      urls = proxies.map { pair in
        "postgresql://canopy@" + pair.map { "127.0.0.1:\($0.port)" }.joined(separator: ",") + "/"
          + name
      }
      folders = try (0..<3).map { _ in try TemporaryFolder() }
      for node in 0..<3 {
        let started = try await start(node)
        state.withLock { $0.nodes.append(started) }
      }
    }

    private func start(_ node: Int) async throws -> NodeServer {
      let offset = state.withLock { Int.random(in: -300...300, using: &$0.random) }
      var environment: [String: String] = [:]
      if let clock = Disturbances.clock {
        environment = ["LD_PRELOAD": clock, "CLOCK_OFFSET": "\(offset)"]
      }
      return try await NodeServer(
        urls[node], folder: folders[node], ["--checkpoint-every", "500"], environment: environment)
    }

    /// Returns a node that runs.
    func node(_ random: inout SeededGenerator) -> NodeServer? {
      random.pick(state.withLock { $0.nodes })
    }

    var all: [NodeServer] { state.withLock { $0.nodes.compactMap { $0 } } }
    var isOver: Bool { state.withLock { $0.isOver } }
    var isSettled: Bool { state.withLock { $0.last != nil } }
    var lastSequence: Int64 { state.withLock { $0.last ?? 0 } }

    var summary: String {
      state.withLock { state in
        state.kinds.sorted { $0.key < $1.key }.map { "\($0.value) × \($0.key)" }
          .joined(separator: ", ")
      }
    }

    func acknowledge() { state.withLock { $0.acknowledged += 1 } }

    /// Notes the end of a writer. Returns whether it was the last one.
    func noteEnd(ofWriters count: Int) -> Bool {
      state.withLock { state in
        state.writersEnded += 1
        return state.writersEnded == count
      }
    }

    /// Makes disturbances, with some writes after each.
    func disturb(_ count: Int) async throws {
      for number in 1...count {
        let next = state.withLock {
          $0.acknowledged + Int.random(in: 5...40, using: &$0.random)
        }
        try await eventually { self.state.withLock { $0.acknowledged >= next } }
        try await disturb()
        if number % 10 == 0 { print("DisturbedNodesTests: \(number) disturbances") }
      }
      for pair in proxies { for proxy in pair { proxy.restore() } }
      state.withLock { $0.isOver = true }
    }

    private func disturb() async throws {
      let (kind, node, bytes, direction, isUnnamed) = state.withLock { state in
        (
          Int.random(in: 0..<100, using: &state.random),
          Int.random(in: 0..<3, using: &state.random),
          Int.random(in: 0...1_500, using: &state.random),
          state.random.pick(Proxy.Direction.allCases), state.random.oneIn(3)
        )
      }
      switch kind {
      case 0..<40:
        note("nodes killed")
        let old = state.withLock { state in
          defer { state.nodes[node] = nil }
          return state.nodes[node]
        }
        try await old?.process.destroy()
        if isUnnamed {
          // Another node in its place: the old one never comes back.
          try? FileManager.default.removeItem(atPath: folders[node].path + "/node")
        }
        // The database may not accept connections at the moment.
        while true {
          try Task.checkCancellation()
          guard let new = try? await start(node) else { continue }
          state.withLock { $0.nodes[node] = new }
          return
        }
      case 40..<92:
        note("connections cut")
        for proxy in proxies[node] { proxy.cut(after: bytes, direction) }
      default:
        guard let command = Disturbances.failover else {
          note("connections cut")
          for pair in proxies { for proxy in pair { proxy.cut(after: bytes, direction) } }
          return
        }
        note("standbys promoted")
        let ending = try await Command.run(["-c", command], program: "/bin/bash")
        try #require(ending.status == 0, "\(ending.errors)")
      }
    }

    private func note(_ kind: String) { state.withLock { $0.kinds[kind, default: 0] += 1 } }

    /// Makes the last commit, and lets the listeners end when they have it.
    func settle() async throws {
      var last: Int64?
      while last == nil {
        try Task.checkCancellation()
        guard let node = all.first else { continue }
        last = try? await node.administrator().sequence("SET /end true")
      }
      let end = last
      state.withLock { $0.last = end }
    }

    func stop() async throws {
      for node in all { #expect(try await node.process.terminate() == 0) }
    }
  }

  /// A client that writes on any node, and sends each write again until it has a reply.
  private struct NodeWriter {
    private let number: Int
    private var random: SeededGenerator
    private var client: LineSocketClient?

    init(_ number: Int, _ random: SeededGenerator) {
      self.number = number
      self.random = random
    }

    /// Writes until the disturbances are over. Returns the numbers of the commits by the keys in `/log`.
    mutating func run(on cluster: DisturbedCluster) async throws -> [String: Int64] {
      var record: [String: Int64] = [:]
      var count: Int64 = 0
      while !cluster.isOver {
        count += 1
        let key = "w\(number)-\(count)"
        let place = "\(random.pick(["a", "b", "c"]))/\(Int.random(in: 0..<20, using: &random))"
        let value = random.oneIn(4) ? "null" : "{\"x\":\(count),\"y\":\"\(random.next())\"}"
        let write =
          "ONCE writer-\(number)-of-the-nodes \(count) \(count - 1) UPDATE / {\"log/\(key)\":\(count),"
          + "\"data/\(place)\":\(value),\"sum\":{\".sv\":{\"increment\":1}}}"
        record[key] = try await send(write, on: cluster)
        cluster.acknowledge()
        if random.oneIn(8) { client = nil }
      }
      return record
    }

    private mutating func send(_ line: String, on cluster: DisturbedCluster) async throws -> Int64 {
      while true {
        try Task.checkCancellation()
        do {
          if client == nil { client = try await cluster.node(&random)?.administrator() }
          guard let client else {
            await Task.yield()
            continue
          }
          let reply = try await client.request(line)
          if reply.hasPrefix("+{\"seq\":") {
            let digits = reply.dropFirst("+{\"seq\":".count).prefix { $0.isNumber }
            return try #require(Int64(digits))
          }
          try #require(reply.hasPrefix("-UNAVAILABLE"), "\(reply)")
          // The node cannot write at the moment. This waits for a commit that it has not, five seconds at most.
          _ = try await client.request("GET /end {\"atLeast\":1000000000}")
          self.client = nil
        } catch is LineClientError {
          client = nil
        } catch is CancellationError {
          throw CancellationError()
        } catch let error as ExpectationFailedError {
          throw error
        } catch {
          client = nil
          await Task.yield()
        }
      }
    }
  }

  /// A client that listens on any node, and resumes on another one.
  private struct NodeListener {
    /// The events of `/log`.
    struct Heard: Sendable {
      /// For each key, the numbers among which its commit must be: one, or those of a resumption.
      var keys: [String: ClosedRange<Int64>] = [:]
      var doubled = 0
      /// The keys that were there before.
      var lost = 0
      var resumed = 0
    }

    private var random: SeededGenerator
    private var heard = Heard()
    /// The last number of which the client has all events.
    private var last: Int64?

    init(_ random: SeededGenerator) {
      self.random = random
    }

    mutating func run(on cluster: DisturbedCluster) async throws -> Heard {
      while true {
        try Task.checkCancellation()
        do {
          guard let node = cluster.node(&random) else {
            await Task.yield()
            continue
          }
          if try await listen(node, cluster) { return heard }
        } catch is CancellationError {
          throw CancellationError()
        } catch {
          await Task.yield()
        }
        heard.resumed += 1
      }
    }

    /// Listens for some commits. Returns whether the client has the last one.
    private mutating func listen(
      _ node: NodeServer, _ cluster: DisturbedCluster
    ) async throws -> Bool {
      let client = try await node.administrator()
      if let last {
        // A client that came to a node that is behind would get older data.
        try await client.value("GET /end {\"atLeast\":\(last)}")
      }
      let since = last.map { ",\"since\":\($0)" } ?? ""
      let reply = try await client.value("LISTEN /log {\"events\":\"child\"\(since)}")
      let start = try #require(reply["seq"]?.integer)
      let initial = try #require(reply["initial"]?.integer)
      let first = min((last ?? 0) + 1, start)
      for _ in 0..<initial { try take(try await client.readLine(), in: first...start) }
      last = start
      // A second listener for the last commit of all.
      let end = try await client.value("LISTEN /end {\"events\":\"value\"}")
      let endID = try #require(end["sub"]?.integer)
      let events = Int.random(in: 20...400, using: &random)
      for _ in 0..<events {
        let line = try await client.readLine()
        let event = try JSONValue(json: String(line.dropFirst()))
        let sequence = try #require(event["seq"]?.integer)
        if event["sub"]?.integer == endID {
          if line.contains("\"data\":true") { return true }
        } else {
          try take(line, in: sequence...sequence)
          if event["more"] == nil { last = sequence }
        }
      }
      return false
    }

    private mutating func take(_ line: String, in place: ClosedRange<Int64>) throws {
      let event = try JSONValue(json: String(line.dropFirst()))
      let kind = event["event"]?.string
      if kind == "put" {
        // The whole state, because the client missed much.
        let keys = Set(event["data"]?.pairs.map(\.name) ?? [])
        for key in keys where heard.keys[key] == nil { heard.keys[key] = place }
        heard.lost += heard.keys.keys.count { !keys.contains($0) }
        return
      }
      let key = try #require(event["key"]?.string)
      try #require(kind == "child_added", "\(line)")
      if heard.keys[key] != nil { heard.doubled += 1 }
      heard.keys[key] = place
    }
  }

  extension JSONValue {
    /// The members; none if the value is not an object.
    fileprivate var pairs: [(name: String, value: JSONValue)] {
      if case .object(let members) = self { members } else { [] }
    }
  }
#endif
