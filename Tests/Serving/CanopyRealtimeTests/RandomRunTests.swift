import CanopyEngine
import CanopyRealtimeWire
import CanopyTesting
import CanopyTree
import CanopyWire
import Synchronization
import Testing

@testable import CanopyRealtime

/// A long run of several clients on one tree, with cuts.
@Suite(.timeLimit(.minutes(20))) struct RandomRunTests {
  @Test(arguments: Depth.allCases)
  func `the copies of all clients are equal at the end, across cuts`(
    _ depth: Depth
  ) async throws {
    var random = SeededGenerator(printingSeedFor: "random run of clients")
    let steps = depth == .inProcess ? 400 : 200
    try await withRealtime(depth) { server in
      let first = RealtimeReplica(server, seed: random.next())
      let second = RealtimeReplica(server, seed: random.next())
      let line = LineReplica(server)
      for replica in [first, second] { try await replica.connect() }
      try await line.connect()
      var writes = RandomWrites()
      writes.keysMax = 4
      writes.depthMax = 3
      for _ in 0..<steps {
        let write = writes.next(&random)
        switch Int.random(in: 0..<3, using: &random) {
        case 0: try await first.send(write)
        case 1: try await second.send(write)
        default: try await line.send(write)
        }
        if random.oneIn(25) { try await first.reconnect() }
        if random.oneIn(25) { try await second.reconnect() }
        if random.oneIn(25) { try await line.reconnect() }
        if random.oneIn(10) { try await first.changeListener(&random) }
      }
      // A write of a cut connection may still be under way. The last of each live connection is answered.
      for replica in [first, second] { try await replica.finish() }
      try await line.finish()
      _ = try await server.parts.engine.transact { _ in Decision(nil, ()) }
      for replica in [first, second] { try await replica.finish() }
      try await line.finish()
      let root = server.parts.engine.root
      for replica in [first, second] {
        #expect(replica.copy == root)
        #expect(replica.copy.hash == root.hash)
        #expect(replica.problem(root) == nil)
      }
      #expect(line.copy == root)
      #expect(line.copy.hash == root.hash)
    }
  }
}

/// A client of the realtime protocol with a copy of the whole tree and of some queries.
private final class RealtimeReplica {
  private let server: RealtimeServer
  private var client: RealtimeClient?
  private var number = 0
  private var tree = Tree()
  /// The queries that it listens to, by tags, with their copies.
  private var queries: [Int64: (target: ListenTarget, copy: Tree)] = [:]
  private var nextTag: Int64 = 1
  private var random: SeededGenerator

  init(_ server: RealtimeServer, seed: UInt64) {
    self.server = server
    random = SeededGenerator(seed: seed)
  }

  var copy: Node { tree.root }

  /// Returns the first problem of the copies of its queries.
  func problem(_ root: Node) -> String? {
    for (target, copy) in queries.values
    where copy.root.at(target.path) != target.query.value(of: root.at(target.path)) {
      return "the copy of \(target) differs"
    }
    return nil
  }

  func connect() async throws {
    client = try await server.connect()
    try await listen(ListenTarget(.root), hash: copy.hash)
    for (target, copy) in queries.values.sorted(by: { $0.target.tag ?? 0 < $1.target.tag ?? 0 }) {
      try await listen(target, hash: copy.root.at(target.path).hash)
    }
  }

  /// Cuts the connection, with requests under way, and connects again with the copies that it has.
  func reconnect() async throws {
    await client?.disconnect()
    try await connect()
  }

  private func request(_ request: RealtimeRequest) async throws -> Int {
    number += 1
    var output = JSONOutput()
    output.append(ClientMessage.request(Int64(number), request))
    try await client?.send(output.text)
    return number
  }

  private func listen(_ target: ListenTarget, hash: String) async throws {
    let number = try await request(.listen(ListenBody(target, hash: hash)))
    try await readUntilAnswered(number)
  }

  /// Sends a write, and sometimes waits for its answer.
  func send(_ write: Write) async throws {
    guard let first = write.items.first else { return }
    let number: Int
    if write.items.count == 1 {
      number = try await request(.put(PutBody(first.location, first.value)))
    } else {
      let changes = write.items.map { Request.Update(location: $0.location, value: $0.value) }
      number = try await request(.merge(MergeBody(.root, changes)))
    }
    if random.oneIn(2) { try await readUntilAnswered(number) }
  }

  /// Begins or ends a listener of a query.
  func changeListener(_ random: inout SeededGenerator) async throws {
    if queries.count > 2, let tag = queries.keys.min() {
      guard let (target, _) = queries.removeValue(forKey: tag) else { return }
      try await readUntilAnswered(try await request(.unlisten(target)))
    } else {
      let keys = RandomWrites.keys.prefix(4)
      let path = random.oneIn(2) ? Path.root : Path.root.child(random.pick(keys))
      let limit: Query.Limit = random.oneIn(2) ? .first(2) : .last(2)
      let order: Order = random.pick([.key, .priority])
      let target = ListenTarget(path, try Query(order: order, limit: limit), tag: nextTag)
      nextTag += 1
      queries[nextTag - 1] = (target, Tree())
      try await listen(target, hash: "")
    }
  }

  /// Waits until everything before this call has come.
  func finish() async throws {
    try await readUntilAnswered(try await request(.statistics))
  }

  private func readUntilAnswered(_ number: Int) async throws {
    while let client {
      let message = try await client.next()
      if try apply(message) == number { return }
    }
  }

  /// Applies a message to the copies. Returns the number of the request that it answers.
  private func apply(_ message: String) throws -> Int? {
    try message.withUTF8Bytes { bytes in
      Result { () throws -> Int? in
        let envelope = try JSONMembers(bytes)
        guard let data = envelope["d"] else { return nil }
        let content = try JSONMembers(data)
        if let number = content.integer("r") { return Int(number) }
        guard let body = content["b"], let action = content.text("a") else { return nil }
        try apply(action, try JSONMembers(body))
        return nil
      }
    }.get()
  }

  private func apply(_ action: String, _ body: JSONMembers) throws {
    let location = try Location(try #require(body.text("p")))
    let data = try #require(body["d"])
    var puts: [Assignment] = []
    if action == "m" {
      for (below, value) in try JSONReader.readUpdate(json: data) {
        let path = location.path.appending(below.path)
        puts.append(Assignment(Location(path, isPriority: below.isPriority), value.node))
      }
    } else {
      puts = [Assignment(location, try WriteValue(json: data).node)]
    }
    guard let tag = body.integer("t") else {
      _ = tree.apply(puts)
      return
    }
    _ = queries[tag]?.copy.apply(puts)
  }
}

/// A client of the line protocol over a WebSocket with a copy of the whole tree.
private final class LineReplica {
  private let server: RealtimeServer
  private var client: RealtimeClient?
  private var tree = Tree()
  private var outstanding = 0

  init(_ server: RealtimeServer) { self.server = server }

  var copy: Node { tree.root }

  func connect() async throws {
    client = try await server.connectForLines()
    outstanding = 0
    tree = Tree()
    try await client?.send(#"LISTEN "" {"events":"sync"}"#)
    outstanding += 1
    try await readReplies()
  }

  func reconnect() async throws {
    await client?.disconnect()
    try await connect()
  }

  func send(_ write: Write) async throws {
    guard let first = write.items.first else { return }
    var output = JSONOutput()
    if write.items.count == 1 {
      output.append("SET ")
      output.append(string: first.location.text)
      output.append(" ")
      output.append(first.value)
    } else {
      output.append("UPDATE \"\" ")
      output.append(write.items.map { Request.Update(location: $0.location, value: $0.value) })
    }
    try await client?.send(bytes: ClientFrame.bytes(0x81, Array(output.text.utf8)))
    outstanding += 1
  }

  func finish() async throws {
    try await client?.send("PING")
    outstanding += 1
    try await readReplies()
  }

  private func readReplies() async throws {
    while outstanding > 0, let client {
      let line = try await client.next()
      switch line.first {
      case ">": try apply(String(line.dropFirst()))
      case "+", "-": outstanding -= 1
      default: throw LineClientError.unexpected(line)
      }
    }
  }

  private func apply(_ event: String) throws {
    try event.withUTF8Bytes { bytes in
      Result { () throws in
        let members = try JSONMembers(bytes)
        let base = try Location(try #require(members.text("path")))
        let data = try #require(members["data"])
        if members.text("event") == "patch" {
          // One update: a priority belongs to the value that the other entries make.
          _ = tree.apply(
            try JSONReader.readUpdate(json: data).map { below, value in
              let path = base.path.appending(below.path)
              return Assignment(Location(path, isPriority: below.isPriority), value.node)
            })
        } else {
          _ = tree.apply([Assignment(base, try WriteValue(json: data).node)])
        }
      }
    }.get()
  }
}
