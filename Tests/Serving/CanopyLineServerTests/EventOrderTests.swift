import CanopyTesting
import CanopyTree
import Testing

/// The order of events and replies on a connection whose events take its event loop several turns.
@Suite(.timeLimit(.minutes(20))) struct EventOrderTests {
  @Test(arguments: Depth.allCases)
  func `the events of a write precede its reply, and those that led to a read precede it`(
    _ depth: Depth
  ) async throws {
    try await withServer(depth) { server in
      let client = try await server.connectAsAdministrator()
      let other = try await server.connectAsAdministrator()
      let views: Int64 = 70
      for index in 0..<views {
        try await client.expectSuccess(of: "LISTEN /a {\"orderBy\":\"o\(index)\"}")
      }
      let count: Int64 = 20
      try await client.send(
        (1...count).map { "SET /a/x \($0)\nGET /a/x\nPING\n" }.joined())
      try await other.send((1...count).map { "SET /a/y \($0)\n" }.joined())
      // The last value of `x` that each subscription got, and the last commit.
      var shown: [Int64: Int64] = [:]
      var sequences: [Int64: Int64] = [:]
      var replies = 0
      while replies < 3 * count {
        let line = try await client.readLine()
        if line.first == ">" {
          let event = try Event(line)
          let sequence = try #require(event.sequence)
          #expect(sequences[event.sub, default: 0] <= sequence)
          sequences[event.sub] = sequence
          if event.key == "x" { shown[event.sub] = event.data?.integer }
          continue
        }
        let number = Int64(replies / 3 + 1)
        switch replies % 3 {
        case 0:
          let sequence = try #require(
            try JSONValue(json: String(line.dropFirst()))["seq"]?.integer, "\(line)")
          #expect(sequences.count == Int(views))
          #expect(sequences.values.allSatisfy { $0 >= sequence })
        case 1:
          let value = try #require(Int64(line.dropFirst()), "\(line)")
          #expect(value >= number)
          #expect(shown.count == Int(views) && shown.values.allSatisfy { $0 >= value })
        default: #expect(line == "+\"PONG\"")
        }
        replies += 1
      }
    }
  }

  @Test(arguments: Depth.allCases)
  func `a subscription that a write ends leaves the replies in order, and its end precedes them`(
    _ depth: Depth
  ) async throws {
    try await withServer(depth) { server in
      try await server.set(
        rules: #"{"rules":{"a":{".read":"data.child('open').val() === true",".write":true}}}"#)
      let client = try await server.connect()
      try await client.expectSuccess(of: "SET /a/open true")
      try await client.expectSuccess(of: "LISTEN /a/x")
      let other = try await server.connectAsAdministrator()
      // The engine waits for the disk, so the next requests are one batch, and their outcomes come together.
      server.parts.journal.gate.hold()
      try await other.send("SET /b 1\n")
      await server.parts.journal.gate.reached()
      try await client.send("SET /a/open false\nSET /a/y 1\nSET /a/y 2\n")
      server.parts.journal.gate.open()
      var lines: [String] = []
      while lines.count < 4 { lines.append(try await client.readLine()) }
      #expect(lines[0].hasPrefix(">{\"sub\":1,\"event\":\"cancel\""), "\(lines)")
      let sequences = try lines.dropFirst().map { line in
        try #require(try JSONValue(json: String(line.dropFirst()))["seq"]?.integer, "\(line)")
      }
      #expect(sequences == sequences.sorted(), "\(lines)")
    }
  }
}
