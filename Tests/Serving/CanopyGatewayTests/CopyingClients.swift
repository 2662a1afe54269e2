import CanopyRealtimeWire
import CanopyTesting
import CanopyTree
import CanopyWire
import Testing

@testable import CanopyEvents

/// A client of the realtime protocol with a copy of the whole tree and of some queries.
struct RealtimeCopy: CopyingClient {
  let seed: UInt64

  func run(
    on port: Int, steps: Int, whenWritten: @escaping @Sendable () -> Void
  ) async throws -> Copy {
    var random = SeededGenerator(seed: seed)
    var state = State()
    var left = steps
    while true {
      let count = Self.stepsToCut(left, &random)
      left -= count
      let isLast = left == 0
      (state, random) = try await HTTPClient.connect(port) { [state, random] client in
        var (state, random) = (state, random)
        try await state.connect(client, isMany: random.oneIn(4))
        for _ in 0..<count {
          let number = try await state.send(Self.writes.next(&random), client)
          if random.oneIn(2) { try await state.read(client) { $0 == number } }
          if random.oneIn(10) { try await state.changeListener(client, &random) }
        }
        if isLast {
          let last = try await state.request(.statistics, client)
          try await state.read(client) { $0 == last }
          whenWritten()
          while !state.hasMark { _ = try await state.readOne(client) }
          // The events of all listeners for the mark are before this answer.
          let number = try await state.request(.statistics, client)
          try await state.read(client) { $0 == number }
        }
        return (state, random)
      }
      if isLast { break }
    }
    return Copy(
      client: "realtime protocol", root: state.tree.root, queries: Array(state.queries.values))
  }

  private struct State: Sendable {
    var tree = Tree()
    /// The queries that it listens to, by tags.
    var queries: [Int64: Copy.OfQuery] = [:]
    var nextTag: Int64 = 1
    var number = 0

    var hasMark: Bool { !tree.root.at(Copy.mark.path).isAbsent }

    /// Connects, and listens with the hashes of the copies.
    ///
    /// - Parameter isMany: whether to listen to many other places as well, so that the connection gets a hub of its own.
    mutating func connect(_ client: HTTPClient, isMany: Bool) async throws {
      #expect(try await client.upgrade("/.ws?v=5&ns=default") == 101)
      _ = try await client.wholeMessage()
      try await listen(ListenTarget(.root), hash: tree.root.hash, client)
      if isMany {
        for place in 0..<EventHubs.connectionMax {
          let target = ListenTarget(try Path("other/k\(place)"))
          _ = try await request(.listen(ListenBody(target)), client)
        }
      }
      for (tag, copy) in queries.sorted(by: { $0.key < $1.key }) {
        try await listen(
          ListenTarget(copy.path, copy.query, tag: tag), hash: copy.tree.root.at(copy.path).hash,
          client)
      }
    }

    mutating func request(_ request: RealtimeRequest, _ client: HTTPClient) async throws -> Int {
      number += 1
      var output = JSONOutput()
      output.append(ClientMessage.request(Int64(number), request))
      try await client.send(message: output.text)
      return number
    }

    private mutating func listen(
      _ target: ListenTarget, hash: String, _ client: HTTPClient
    ) async throws {
      let number = try await request(.listen(ListenBody(target, hash: hash)), client)
      try await read(client) { $0 == number }
    }

    mutating func send(_ write: Write, _ client: HTTPClient) async throws -> Int {
      if let first = write.items.first, write.items.count == 1 {
        return try await request(.put(PutBody(first.location, first.value)), client)
      }
      return try await request(.merge(MergeBody(.root, write.updates)), client)
    }

    mutating func changeListener(
      _ client: HTTPClient, _ random: inout SeededGenerator
    ) async throws {
      if queries.count > 2, let tag = queries.keys.min(),
        let copy = queries.removeValue(forKey: tag)
      {
        let number = try await request(
          .unlisten(ListenTarget(copy.path, copy.query, tag: tag)), client)
        return try await read(client) { $0 == number }
      }
      let path =
        random.oneIn(2) ? Path.root : Path.root.child(random.pick(RandomWrites.keys.prefix(4)))
      let limit: Query.Limit = random.oneIn(2) ? .first(2) : .last(2)
      let query = try Query(order: random.pick([.key, .priority]), limit: limit)
      let tag = nextTag
      nextTag += 1
      queries[tag] = Copy.OfQuery(path: path, query: query)
      try await listen(ListenTarget(path, query, tag: tag), hash: "", client)
    }

    /// Reads messages until an answer for whose number a condition holds.
    mutating func read(_ client: HTTPClient, until isAwaited: (Int) -> Bool) async throws {
      while true {
        if let answered = try await readOne(client), isAwaited(answered) { return }
      }
    }

    /// Applies a message. Returns the number of the request that it answers.
    mutating func readOne(_ client: HTTPClient) async throws -> Int? {
      try JSONMembers.read(try await client.wholeMessage()) { envelope -> Int? in
        guard let data = envelope["d"] else { return nil }
        let content = try JSONMembers(data)
        if let number = content.integer("r") { return Int(number) }
        guard let body = content["b"], let action = content.text("a") else { return nil }
        let members = try JSONMembers(body)
        let puts = try members.puts("p", "d", isPatch: action == "m")
        if let tag = members.integer("t") {
          _ = queries[tag]?.tree.apply(puts)
        } else {
          _ = tree.apply(puts)
        }
        return nil
      }
    }
  }
}

/// A client of the line protocol over a WebSocket with a copy of the whole tree.
struct LineCopy: CopyingClient {
  let seed: UInt64

  func run(
    on port: Int, steps: Int, whenWritten: @escaping @Sendable () -> Void
  ) async throws -> Copy {
    var random = SeededGenerator(seed: seed)
    var left = steps
    while true {
      let count = Self.stepsToCut(left, &random)
      left -= count
      let isLast = left == 0
      let tree: Tree
      (tree, random) = try await HTTPClient.connect(port) { [random] client in
        var random = random
        var tree = Tree()
        var awaited = 1
        #expect(try await client.upgrade("/line") == 101)
        try await client.send(message: #"LISTEN "" {"events":"sync"}"#)
        if random.oneIn(4) {
          // So the connection gets a hub of its own.
          for place in 0..<EventHubs.connectionMax {
            try await client.send(message: "LISTEN /other/k\(place)")
          }
          awaited += EventHubs.connectionMax
        }
        for _ in 0..<count {
          try await client.send(message: Self.writes.next(&random).line)
          awaited += 1
          if random.oneIn(4) {
            while awaited > 0 {
              if try await Self.readOne(client, &tree) { awaited -= 1 }
            }
          }
        }
        if isLast {
          while awaited > 0 {
            if try await Self.readOne(client, &tree) { awaited -= 1 }
          }
          whenWritten()
          while tree.root.at(Copy.mark.path).isAbsent { _ = try await Self.readOne(client, &tree) }
        }
        return (tree, random)
      }
      if isLast { return Copy(client: "line protocol", root: tree.root) }
    }
  }

  /// Applies a line. Returns whether it is a reply.
  private static func readOne(_ client: HTTPClient, _ tree: inout Tree) async throws -> Bool {
    let line = try await client.wholeMessage()
    guard line.hasPrefix(">") else { return true }
    try JSONMembers.read(String(line.dropFirst())) { members in
      _ = tree.apply(
        try members.puts("path", "data", isPatch: members.text("event") == "patch"))
    }
    return false
  }
}

/// A client of REST, which reads the tree at the end.
struct RESTCopy: CopyingClient {
  let seed: UInt64

  func run(
    on port: Int, steps: Int, whenWritten: @escaping @Sendable () -> Void
  ) async throws -> Copy {
    var random = SeededGenerator(seed: seed)
    var left = steps
    while left > 0 {
      let count = Self.stepsToCut(left, &random)
      left -= count
      random = try await HTTPClient.connect(port) { [random] client in
        var random = random
        var awaited = 0
        for _ in 0..<count {
          let write = Self.writes.next(&random)
          if let first = write.items.first, write.items.count == 1 {
            let method = first.value.node.isAbsent && random.oneIn(2) ? "DELETE" : "PUT"
            var output = JSONOutput()
            output.append(first.value)
            try await client.begin(
              method, first.location.target, [:], method == "PUT" ? output.text : nil)
          } else {
            var output = JSONOutput()
            output.append(write.updates)
            try await client.begin("PATCH", "/.json", [:], output.text)
          }
          awaited += 1
          // Some requests are sent before the responses to others have come.
          while awaited > 0, !random.oneIn(3) {
            let response = try await client.response()
            #expect(response.status == 200, "\(response.text)")
            awaited -= 1
          }
        }
        return random
      }
    }
    return try await HTTPClient.connect(port) { client in
      whenWritten()
      while try await client.request("GET", "/mark.json").text == "null" {}
      let response = try await client.request(
        "GET", "/.json?format=export", ["X-Firebase-ETag": "true"])
      return Copy(
        client: "REST", root: try WriteValue(json: response.text).node,
        etag: response.fields["etag"])
    }
  }
}

/// A client of an event stream with a copy of the whole tree, without priorities. It does not write.
struct StreamCopy: CopyingClient {
  let seed: UInt64

  func run(
    on port: Int, steps: Int, whenWritten: @escaping @Sendable () -> Void
  ) async throws -> Copy {
    var random = SeededGenerator(seed: seed)
    whenWritten()
    while true {
      // The number of events depends on the writes of the other clients, so the mark alone is the end.
      let count = Self.stepsToCut(steps, &random)
      let tree = try await HTTPClient.connect(port) { client in
        var tree = Tree()
        try await client.begin("GET", "/.json", ["Accept": "text/event-stream"])
        #expect(try await client.head().status == 200)
        for _ in 0..<count where tree.root.at(Copy.mark.path).isAbsent {
          try await Self.readOne(client, &tree)
        }
        return tree
      }
      guard tree.root.at(Copy.mark.path).isAbsent else {
        return Copy(client: "event stream", root: tree.root, hasPriorities: false)
      }
    }
  }

  private static func readOne(_ client: HTTPClient, _ tree: inout Tree) async throws {
    let event = try await client.event()
    guard event.hasPrefix("put ") || event.hasPrefix("patch ") else { return }
    try JSONMembers.read(String(event.drop { $0 != " " }.dropFirst())) { members in
      _ = tree.apply(try members.puts("path", "data", isPatch: event.hasPrefix("patch ")))
    }
  }
}

extension Write {
  /// The items as an update of the root.
  fileprivate var updates: [Request.Update] {
    items.map { Request.Update(location: $0.location, value: $0.value) }
  }

  /// The line that makes the write.
  fileprivate var line: String {
    var output = JSONOutput()
    if let first = items.first, items.count == 1 {
      output.append("SET ")
      output.append(string: first.location.text)
      output.append(" ")
      output.append(first.value)
    } else {
      output.append("UPDATE \"\" ")
      output.append(updates)
    }
    return output.text
  }
}

extension Location {
  /// The target of a request for it. All characters but letters and digits are escaped.
  fileprivate var target: String {
    let path = text.utf8.map { byte in
      switch byte {
      case UInt8(ascii: "/"), UInt8(ascii: "."), UInt8(ascii: "a")...UInt8(ascii: "z"):
        String(decoding: [byte], as: UTF8.self)
      default: "%" + (byte < 16 ? "0" : "") + String(byte, radix: 16)
      }
    }.joined()
    return (path.hasPrefix("/") ? "" : "/") + path + ".json"
  }
}

extension JSONMembers {
  /// Calls `body` with the members of an object.
  fileprivate static func read<R>(
    _ text: String, _ body: (JSONMembers) throws -> R
  ) throws -> R {
    do {
      return try text.withUTF8Bytes { bytes in Result { try body(try JSONMembers(bytes)) } }.get()
    } catch {
      Issue.record("\(error) in \(text.prefix(500))")
      throw error
    }
  }

  /// Returns the new values of an event.
  ///
  /// - Parameters:
  ///   - path: the member with the location.
  ///   - data: the member with the value, or with those of several locations.
  fileprivate func puts(_ path: StaticString, _ data: StaticString, isPatch: Bool) throws
    -> [Assignment]
  {
    let base = try Location(try #require(text(path)))
    let bytes = try #require(self[data])
    guard isPatch else { return [Assignment(base, try WriteValue(json: bytes).node)] }
    return try JSONReader.readUpdate(json: bytes).map { below, value in
      Assignment(
        Location(base.path.appending(below.path), isPriority: below.isPriority), value.node)
    }
  }
}
