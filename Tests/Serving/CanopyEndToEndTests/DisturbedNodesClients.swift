#if PostgreSQL
  import CanopyTesting
  import CanopyTree
  import Foundation
  import Synchronization
  import Testing

  /// A client that writes on any node, and sends each write again until it has a reply.
  struct NodeWriter {
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
  struct NodeListener {
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
    var pairs: [(name: String, value: JSONValue)] {
      if case .object(let members) = self { members } else { [] }
    }
  }
#endif
