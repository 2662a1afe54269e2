#if PostgreSQL
  import CanopyTesting
  import CanopyTree
  import Foundation
  import Synchronization
  import Testing

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
    var isQuiet: Bool { state.withLock { $0.last != nil } }
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
        try #require(ending.status == 0, "\(ending)")
      }
    }

    private func note(_ kind: String) { state.withLock { $0.kinds[kind, default: 0] += 1 } }

    /// Makes the last commit, and lets the listeners end when they have it.
    func waitUntilQuiet() async throws {
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
#endif
