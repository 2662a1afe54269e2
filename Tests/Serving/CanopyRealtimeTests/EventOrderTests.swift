import CanopyTesting
import CanopyTree
import Testing

/// The events of a write precede its reply, and a reply to a read follows all events up to its version. Also when the
/// events take the event loop several turns.
@Suite(.timeLimit(.minutes(20))) struct EventOrderTests {
  /// The data that the listeners of a client show.
  private struct Shown {
    private var values: [Int64: [String: Int64]] = [:]

    /// Takes a message about changes of `/a`.
    mutating func take(_ body: JSONValue) throws {
      let tag = try #require(body["t"]?.integer)
      let path = try #require(body["p"]?.string)
      let data = try #require(body["d"])
      for key in ["x", "y"] {
        let value = path == "a/\(key)" ? data : path == "a" ? data[key] : nil
        if let value { values[tag, default: [:]][key] = try EventOrderTests.number(value) }
      }
    }

    /// Returns the different values that the listeners show of a child.
    func all(_ key: String, of count: Int) -> Set<Int64> {
      #expect(values.count == count)
      return Set(values.values.map { $0[key] ?? 0 })
    }
  }

  /// Returns the number with which a text begins; 0 for null.
  private static func number(_ value: JSONValue?) throws -> Int64 {
    guard let text = value?.string else { return 0 }
    return try #require(Int64(text.prefix { $0.isNumber }))
  }

  @Test(arguments: Depth.allCases)
  func `the messages about a write precede its answer, and a get is the value that they lead to`(
    _ depth: Depth
  ) async throws {
    try await withRealtime(depth) { server in
      let client = try await server.connect()
      let views = 70
      for tag in 1...views {
        let query = #"{"l":\#(tag + 1),"vf":"l","i":".key"}"#
        try await client.request(tag, "q", #"{"p":"/a","q":\#(query),"t":\#(tag),"h":""}"#)
      }
      // The messages about one write are more than a turn may send.
      let padding = String(repeating: "p", count: 16_000)
      let rounds = 5
      async let others: Void = {
        for round in 1...rounds { try await server.write("a/y", #""\#(round)-\#(padding)""#) }
      }()
      var shown = Shown()
      for round in 1...rounds {
        let number = 1_000 + 2 * round
        try await client.send(number, "p", #"{"p":"/a/x","d":"\#(round)-\#(padding)"}"#)
        try await client.send(number + 1, "g", #"{"p":"/a"}"#)
        var isPut = false
        while true {
          let data = try #require(try JSONValue(json: try await client.next())["d"])
          let body = try #require(data["b"])
          guard let answered = data["r"]?.integer else {
            try shown.take(body)
            continue
          }
          #expect(body["s"]?.string == "ok")
          if answered == Int64(number) {
            #expect(shown.all("x", of: views) == [Int64(round)])
            isPut = true
          } else {
            #expect(isPut && answered == Int64(number + 1))
            for key in ["x", "y"] {
              let value = try Self.number(body["d"]?[key])
              #expect(shown.all(key, of: views) == [value])
            }
            break
          }
        }
      }
      try await others
    }
  }
}
