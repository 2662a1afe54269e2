import CanopyEngine
import CanopyTesting
import CanopyTree
import CanopyWire
import Synchronization
import Testing

@testable import CanopySession

/// Sessions on several nodes with one journal.
@Suite(.timeLimit(.minutes(20))) struct NodeTests {
  private let memory: SharedMemory
  private let accounts = InMemoryAccountStore()
  /// The clock of the database.
  private let time = ManualClock()

  init() {
    memory = SharedMemory(now: { [time] in time.now })
  }

  /// Runs nodes during `body`.
  private func withNodes(
    _ count: Int = 3, _ body: @escaping @Sendable ([NodeParts]) async throws -> Void
  ) async throws {
    var nodes: [NodeParts] = []
    for node in 0..<count {
      nodes.append(try await NodeParts(memory, node: node, accountStore: accounts))
    }
    try await withThrowingTaskGroup(of: Void.self) { [nodes] group in
      for node in nodes { group.addTask { await node.engine.run() } }
      let result: Result<Void, any Error>
      do { result = .success(try await body(nodes)) } catch { result = .failure(error) }
      for node in nodes { node.engine.stop() }
      try await group.waitForAll()
      try result.get()
    }
  }

  private func request(_ line: String) throws -> Request {
    try Array(line.utf8).withUnsafeBytes { try Request(line: $0, limits: Limits()) }
  }

  private func write(
    _ line: String, as identity: Identity = .anonymous, on node: NodeParts
  ) async throws -> Reply {
    guard case .write(let write) = try request(line) else {
      throw WireError(.badRequest, "not a write: \(line)")
    }
    return await withCheckedContinuation { continuation in
      node.operations.write(write, as: identity, from: "10.0.0.1") {
        continuation.resume(returning: $0)
      }
    }
  }

  private func account(
    _ line: String, as identity: Identity = .anonymous, on node: NodeParts
  ) async throws -> Session.Completion {
    guard case .account(let account) = try request(line) else {
      throw WireError(.badRequest, "not about an account: \(line)")
    }
    return await node.operations.account(account, as: identity, from: "10.0.0.1")
  }

  private func session(_ completion: Session.Completion) throws -> UserSession {
    guard case .user(let session)? = completion.identity else {
      Issue.record("no login: \(completion.reply)")
      throw WireError.loginNeeded
    }
    return session
  }

  private func code(_ reply: Reply) -> WireError.Code? {
    if case .failure(let error) = reply { error.code } else { nil }
  }

  private static let open = #"{"rules":{".read":true,".write":true}}"#
  private static let readOnly = #"{"rules":{".read":true,".write":"now < 0"}}"#

  @Test func `rules that are replaced on one node are in force on all after the same commit`()
    async throws
  {
    try await withNodes { nodes in
      for (turn, text) in [Self.open, Self.readOnly, Self.open].enumerated() {
        let node = nodes[turn]
        let reply = await node.operations.administration(.setRules(text), as: .administrator).reply
        #expect(code(reply) == nil)
        let sequence = memory.commits.last { $0.note?.mark == .rules(text) }?.sequence ?? 0
        #expect(sequence > 0)
        let other = nodes[(turn + 1) % 3]
        if text == Self.readOnly {
          // A write on another node is decided by these rules, even if the node has not read their commit yet: the
          // append fails, and the write is decided again. A refusal appends nothing, so it may come from earlier rules.
          let denied = code(try await write("SET /a \(turn)", on: other))
          #expect(denied == .permissionDenied)
        }
        for node in nodes {
          try await node.engine.wait(for: sequence, atMost: .seconds(30))
          #expect(node.operations.rules.current.text == text)
          #expect(node.operations.rules.current.sequence == sequence)
        }
        if text == Self.open {
          let reply = try await write("SET /a \(turn)", on: other)
          #expect(code(reply) == nil)
        }
      }
    }
    // A new node has them from the start.
    try await withNodes(1) { nodes in
      #expect(nodes[0].operations.rules.current.text == Self.open)
      let reply = try await write("SET /b 1", on: nodes[0])
      #expect(code(reply) == nil)
    }
  }

  @Test func `no write is decided by rules that an earlier commit has replaced`() async throws {
    try await withNodes { nodes in
      _ = await nodes[0].operations.administration(.setRules(Self.open), as: .administrator)
      try await withThrowingTaskGroup(of: Void.self) { group in
        for (index, node) in nodes.enumerated() {
          group.addTask {
            for number in 0..<60 {
              _ = try await write("SET /n/\(index)-\(number) 1", on: node)
            }
          }
        }
        group.addTask {
          for turn in 0..<6 {
            _ = await nodes[turn % 3].operations.administration(
              .setRules(turn % 2 == 0 ? Self.readOnly : Self.open), as: .administrator)
          }
        }
        try await group.waitForAll()
      }
      var mayWrite = false
      for commit in memory.commits {
        if case .rules(let text) = commit.note?.mark {
          mayWrite = text == Self.open
        } else if !commit.assignments.isEmpty {
          #expect(mayWrite, "commit \(commit.sequence)")
        }
      }
    }
  }

  @Test func `a node that cannot read the rules allows nothing`() async throws {
    try await withNodes(2) { nodes in
      _ = await nodes[0].operations.administration(.setRules(Self.open), as: .administrator)
      let sequence = try await nodes[1].engine.commit(.rules("{\"later\":1}"))
      for node in nodes {
        try await node.engine.wait(for: sequence, atMost: .seconds(30))
        let reply = try await write("SET /a 1", on: node)
        #expect(code(reply) == .permissionDenied)
      }
    }
  }

  @Test func `a login ends on all nodes when its token is revoked on one`() async throws {
    try await withNodes { nodes in
      let first = try session(
        try await account("SIGNUP ann@example.com correct-horse-battery ann", on: nodes[0]))
      let there = try session(try await account("AUTH \(first.token)", on: nodes[1]))
      let other = try session(
        try await account("LOGIN ann@example.com correct-horse-battery", on: nodes[2]))
      #expect(there.isValid(at: time.now) && other.isValid(at: time.now))
      _ = try await account("LOGOUT", as: .user(first), on: nodes[0])
      try await eventually { !there.isValid(at: time.now) }
      #expect(other.isValid(at: time.now), "it has another token")
      // A disabled account has no logins.
      let reply = await nodes[0].operations.administration(
        .setDisabled(true, .uid(first.uid.text)), as: .administrator
      ).reply
      #expect(code(reply) == nil)
      try await eventually { !other.isValid(at: time.now) }
      let refused = try await account("AUTH \(other.token)", on: nodes[2]).reply
      #expect(code(refused) == .unauthenticated)
    }
  }

  @Test func `on-disconnect writes of a node that is gone are made once by another`() async throws {
    try await withNodes { nodes in
      #expect(try await nodes[0].journal.renewLease())
      #expect(try await nodes[1].journal.renewLease())
      for (node, place) in [(0, "a"), (0, "b"), (1, "c")] {
        guard
          case .connection(.onDisconnect(let request, let text)) = try request(
            "ONDISCONNECT SET /online/\(place) {\".sv\":{\"increment\":1}}")
        else { return }
        let completion = await nodes[node].operations.onDisconnect(
          request, text: text, as: .administrator, [])
        #expect(completion.armed?.count == 1)
      }
      // The first node is gone; the others keep their leases.
      nodes[0].journal.cut()
      let leases = Task {
        await withTaskGroup(of: Void.self) { group in
          for node in nodes[1...] { group.addTask { await node.operations.keepLease() } }
        }
      }
      time.advance(NodeJournal.leaseMilliseconds - 1)
      #expect(try await nodes[1].journal.renewLease())
      #expect(
        try await nodes[2].journal.takeOverDisconnectWrites(countMax: 9, bytesMax: 9_999).isEmpty)
      time.advance(1)
      leases.cancel()
      await leases.value
      // Both look for them at the same time.
      await withTaskGroup(of: Void.self) { group in
        for node in nodes[1...] {
          group.addTask {
            var work = TakenOverWrites()
            try? await node.operations.makeWrites(takenOverFrom: node.journal, &work)
          }
        }
      }
      try await nodes[1].engine.wait(for: memory.sequence, atMost: .seconds(30))
      #expect(nodes[1].engine.root.child("online") == Node(children: [("a", 1), ("b", 1)]))
      #expect(memory.disconnectWriteIDs.count == 1, "that of the node that lives")
    }
  }

  @Test func `a node that was slow and not gone does not make its writes a second time`()
    async throws
  {
    try await withNodes(2) { nodes in
      #expect(try await nodes[0].journal.renewLease())
      guard
        case .connection(.onDisconnect(let request, let text)) = try request(
          "ONDISCONNECT SET /online/a {\".sv\":{\"increment\":1}}")
      else { return }
      let armed = await nodes[0].operations.onDisconnect(
        request, text: text, as: .administrator, []
      ).armed
      time.advance(NodeJournal.leaseMilliseconds)
      var work = TakenOverWrites()
      try await nodes[1].operations.makeWrites(takenOverFrom: nodes[1].journal, &work)
      #expect(try await nodes[0].journal.renewLease() == false)
      nodes[0].operations.carryOut(armed ?? [], as: .administrator, from: "10.0.0.1") { _ in
        Issue.record("it is not to be tried again")
      }
      // It follows the writes of its owner.
      _ = try await write("SET /x 1", as: .administrator, on: nodes[0])
      #expect(nodes[0].engine.root.child("online").child("a") == 1)
    }
  }

  @Test func `fifty users on three nodes star one post, and the count is right`() async throws {
    try await withNodes { nodes in
      let author = try session(
        try await account("SIGNUP ann@example.com correct-horse-battery ann", on: nodes[0]))
      let reply = try await write("POST Title Body", as: .user(author), on: nodes[0])
      #expect(code(reply) == nil)
      var id: Key?
      nodes[0].engine.root.child("posts").forEachChild { key, _ in
        id = key
        return true
      }
      guard let id else {
        Issue.record("there is no post")
        return
      }
      for node in nodes { try await node.engine.wait(for: memory.sequence, atMost: .seconds(30)) }
      let outcomes = await withTaskGroup(of: Bool.self) { group in
        for number in 0..<50 {
          group.addTask {
            guard let uid = try? Key("u\(number)") else { return false }
            let user = UserSession(uid: uid, email: "", token: "t\(number)", expiresAt: .max)
            var isStarred = false
            // An odd number of times, each on another node.
            for turn in 0..<3 {
              let node = nodes[(number + turn) % 3]
              guard let reply = try? await write("STAR \(id.text)", as: .user(user), on: node),
                code(reply) == nil
              else { return false }
              isStarred.toggle()
            }
            return isStarred
          }
        }
        return await group.reduce(into: []) { $0.append($1) }
      }
      #expect(outcomes.count { $0 } == 50)
      for node in nodes {
        try await node.engine.wait(for: memory.sequence, atMost: .seconds(30))
        let post = node.engine.root.child("posts").child(id)
        #expect(post.child("starCount") == 50)
        #expect(post.child("stars").childCount == 50)
      }
      #expect(Set(nodes.map { $0.engine.root.hash }).count == 1)
      let races = nodes.map { $0.engine.races.lost }
      print("NodeTests: 150 stars, races lost by node: \(races)")
    }
  }
}
