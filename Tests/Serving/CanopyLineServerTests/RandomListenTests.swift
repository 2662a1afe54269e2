import CanopyEngine
import CanopyTesting
import CanopyTree
import Foundation
import Testing

@testable import CanopyEvents
@testable import CanopyLineServer

/// Random writes, random queries, and connections that break at random points.
@Suite(.timeLimit(.minutes(20))) struct RandomListenTests {
  /// The number of runs of each test; `CANOPY_RUNS` sets it.
  private static let runs =
    ProcessInfo.processInfo.environment["CANOPY_RUNS"].flatMap { Int($0) } ?? 5

  static func replica(_ random: inout SeededGenerator) throws -> ListenReplica {
    let keys = RandomWrites.keys.prefix(5)
    let count = Int.random(in: 0...2, using: &random)
    let path = (0..<count).reduce(Path.root) { path, _ in path.child(random.pick(keys)) }
    let form = random.pick(EventForm.allCases)
    var options = ["\"events\":\"\(form)\""]
    if random.oneIn(3) { return ListenReplica(Listening(path, form: form), options: options[0]) }
    let order = random.pick(["$key", "$value", "$priority", "a"])
    options.append("\"orderBy\":\"\(order)\"")
    let n = Int.random(in: 1...3, using: &random)
    options += random.pick([[], ["\"limitToFirst\":\(n)"], ["\"limitToLast\":\(n)"]])
    if random.oneIn(3) {
      let bound = order == "$key" ? "\"a!\"" : random.pick(["null", "1", "[0,\"a\"]", "\"p\""])
      options.append("\"\(random.pick(["startAt", "endAt", "startAfter", "endBefore"]))\":\(bound)")
    }
    let text = options.joined(separator: ",")
    let query = try Query(options: JSONValue(json: "{\(text)}"))
    return ListenReplica(Listening(path, query, form: form), options: text)
  }

  @Test(arguments: Depth.allCases)
  func `a copy made of events equals the result of its query, with many broken connections`(
    _ depth: Depth
  ) async throws {
    var random = SeededGenerator(printingSeedFor: "RandomListenTests.copies")
    for _ in 0..<Self.runs { try await run(depth, &random) }
  }

  private func run(_ depth: Depth, _ random: inout SeededGenerator) async throws {
    var replicas: [ListenReplica] = []
    // In some runs the connection has a hub of its own.
    let count = random.oneIn(3) ? EventHubs.connectionMax + 4 : 8
    for _ in 0..<count { replicas.append(try Self.replica(&random)) }
    var generator = random
    random = SeededGenerator(seed: random.next())
    let start = replicas
    // In half of the runs all replies are encoded in pieces.
    let isInPieces = random.oneIn(2)
    try await withServer(depth) {
      if isInPieces { $0.limits.wholeReplyBytesMax = 1 }
    } _: { server in
      var replicas = start
      var client: (any LineClient)?
      var writes = RandomWrites()
      writes.keysMax = 5
      writes.depthMax = 3
      writes.bigOnceIn = 1_000
      for round in 0..<60 {
        if client == nil {
          let connected = try await server.connectAsAdministrator()
          for i in replicas.indices { try await begin(&replicas, i, connected) }
          client = connected
        }
        guard let connected = client else { return }
        for _ in 0..<Int.random(in: 1...6, using: &generator) {
          let write = writes.next(&generator)
          _ = try? await server.parts.engine.transact { _ in Decision(write, ()) }
        }
        if generator.oneIn(4) {
          // The connection breaks after the client has read a part of its lines.
          try await read(&replicas, connected, lines: Int.random(in: 0...10, using: &generator))
          await connected.disconnect()
          client = nil
          continue
        }
        for event in try await connected.events(until: "PING").events { try take(&replicas, event) }
        for replica in replicas {
          let problem = try replica.problem(server.root)
          #expect(problem == nil, "round \(round)")
          if problem != nil { return }
        }
      }
      if let client { await client.disconnect() }
      try await server.eventually { server.parts.engine.listenerCounts == (0, 0) }
    }
  }

  private func take(_ replicas: inout [ListenReplica], _ event: Event) throws {
    let index = try #require(replicas.firstIndex { $0.sub == event.sub })
    try replicas[index].take(event)
  }

  /// Begins a subscription. Events of other subscriptions may arrive before its reply.
  private func begin(
    _ replicas: inout [ListenReplica], _ index: Int, _ client: any LineClient
  ) async throws {
    let (events, reply) = try await client.events(until: replicas[index].request)
    for event in events { try take(&replicas, event) }
    try #require(reply.first == "+", "\(replicas[index].request): \(reply)")
    try replicas[index].begin(reply)
  }

  private func read(
    _ replicas: inout [ListenReplica], _ client: any LineClient, lines: Int
  ) async throws {
    for _ in 0..<lines where client.mailbox.count > 0 {
      try take(&replicas, try await client.event())
    }
  }

  @Test(arguments: Depth.allCases)
  func `a hundred listeners get the events of eight writers in one order, each once`(
    _ depth: Depth
  ) async throws {
    let commits = 1_600
    // No event waits so long that it is left out, however slow the machine is.
    try await withServer(depth, { $0.limits.queuedBytesMax = 1 << 30 }) { server in
      var clients: [any LineClient] = []
      for _ in 0..<10 {
        let client = try await server.connectAsAdministrator()
        for i in 0..<10 {
          let path = i < 5 ? "/" : "/w\(i - 5)"
          _ = try await client.begin("LISTEN \(path) {\"events\":\"value\"}")
        }
        clients.append(client)
      }
      try await withThrowingTaskGroup(of: Void.self) { group in
        for writer in 0..<8 {
          let client = try await server.connectAsAdministrator()
          group.addTask {
            try await client.send(
              (0..<commits / 8).map { "SET /w\(writer) \($0)\n" }.joined())
            _ = try await client.readLines(commits / 8)
          }
        }
        try await group.waitForAll()
      }
      for client in clients {
        var sequences: [Int64: [Int64]] = [:]
        for event in try await client.events(until: "PING").events {
          sequences[event.sub, default: []].append(try #require(event.sequence))
        }
        for sub in 1...5 { #expect(sequences[Int64(sub)] == Array(1...Int64(commits))) }
        for sub in 6...10 {
          let own = try #require(sequences[Int64(sub)])
          #expect(own.count == commits / 8)
          #expect(zip(own, own.dropFirst()).allSatisfy { $0 < $1 })
        }
      }
    }
  }
}
