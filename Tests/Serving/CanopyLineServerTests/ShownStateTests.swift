import CanopyTesting
import CanopyTree
import CanopyWire
import Testing

@testable import CanopyEngine
@testable import CanopyEvents
@testable import CanopyLineServer
@testable import CanopySession

/// The state with which a subscription begins. A large one is made on another thread, in the turn of the subscription.
@Suite(.timeLimit(.minutes(20))) struct ShownStateTests {
  /// Ten thousand children of a kilobyte.
  private static let node: Node = {
    let text = Node(String(repeating: "x", count: 1000))
    return Node(
      children: (0..<10_000).compactMap { index in
        (try? Key("k\(index)")).map { ($0, text) }
      })
  }()

  private static func queries() throws -> [Query] {
    [
      .all, try Query(order: .key, limit: .last(9_999)),
      try Query(order: .key, lower: .init(.absent, key: "0")),
    ]
  }

  /// Returns the answer to a request for a subscription whose state was found on another thread.
  private static func subscribed(
    _ listening: Listening, isReplacement: Bool
  ) throws -> Subscribed {
    let start = ListenStart(listening, Snapshot(root: node, sequence: 7))
    let bytes = try EventLines.size(of: start, limits: Limits())
    let resumption = Resumption(stateOf: start.node, listening, bytes: bytes)
    guard case .state(let state) = resumption.content else { throw LineClientError.closed }
    return Subscribed(
      number: 1, sequence: 7, content: .state(state, listening, isReplacement: isReplacement),
      bytes: resumption.bytes)
  }

  @Test(arguments: [EventForm.sync, .value])
  func `members of a large patch or post are made into text one by one`(_ form: EventForm) throws {
    let count = 50_000
    let puts = try (0..<count).map { Assignment(Location(try Path("k\($0)")), Node(Int64($0))) }
    var pieces: LinePieces
    let expected: String
    if form == .sync {
      pieces = LinePieces(
        Subscribed(
          number: 1, sequence: 7,
          content: .changes([.put(puts)], Listening(.root, .all, form: form)),
          bytes: ValueBytes(json: 1_000_000)), eventBytesMax: Limits().replyBytesMax)
      expected = puts.map { "\"\($0.location.text)\":\($0.value.json(.plain))" }
        .joined(separator: ",")
    } else {
      let post = Node(
        children: puts.compactMap { put in put.location.path.last.map { ($0, put.value) } })
      pieces = LinePieces(
        bytes: ValueBytes(json: 1_000_000), parts: LinePieces.parts(ofEntry: "p", post))
      var members: [String] = []
      post.forEachChild { key, child in
        members.append("\"\(key)\":\(child.json(.plain))")
        return true
      }
      expected = "{\"id\":\"p\"," + members.joined(separator: ",") + "}"
    }
    var text: [UInt8] = []
    while !pieces.isDone {
      var output = JSONOutput()
      pieces.write(to: &output, bytes: 1_000)
      #expect(pieces.parts.count <= 4)
      text += output.bytes
    }
    #expect(String(decoding: text, as: UTF8.self).contains(expected))
  }

  #if CANOPY_COUNT_WORK
    @Test(arguments: EventForm.allCases)
    func `the event loop begins a large subscription with the nodes of its first piece alone`(
      _ form: EventForm
    ) throws {
      for query in try Self.queries() {
        for isReplacement in [false, true] {
          let subscribed = try Self.subscribed(
            Listening(.root, query, form: form), isReplacement: isReplacement)
          var pieces: LinePieces?
          let nodes = WorkCounter.nodesTouched {
            pieces = LinePieces(subscribed, eventBytesMax: Limits().replyBytesMax)
            var output = JSONOutput(capacity: 80_000)
            pieces?.write(to: &output, bytes: 65_536)
            #expect(output.count >= 65_536)
          }
          // 64 children, and the pages that lead to them.
          #expect(nodes <= 160, "\(form) \(query) \(isReplacement)")
          #expect(pieces?.isDone == false)
        }
      }
    }
  #endif

  @Test func `a list that was made for a subscription is charged until its end`() throws {
    for form in EventForm.allCases {
      for query in try Self.queries() {
        let listening = Listening(.root, query, form: form)
        let subscribed = try Self.subscribed(listening, isReplacement: false)
        let isOfTree = query.isUnbounded && form != .child
        // Each text takes more than its thousand bytes.
        let count = query.count(in: Self.node)
        #expect(
          subscribed.bytes.memory
            > count * (1_000 + (isOfTree ? 0 : ShownState.childBytes)))
        var pieces = LinePieces(subscribed, eventBytesMax: Limits().replyBytesMax)
        let held = pieces.heldBytes
        #expect(held >= subscribed.bytes.memory)
        #expect(Reply.subscribed(subscribed).heldBytes >= subscribed.bytes.memory)
        var output = JSONOutput(capacity: 80_000)
        while !pieces.isDone {
          #expect(pieces.heldBytes == held)
          output.truncate(to: 0)
          pieces.write(to: &output, bytes: 65_536)
        }
        #expect(pieces.heldBytes == 0)
      }
    }
  }

  @Test(
    arguments: Depth.allCases,
    [#""child""#, #""value""#, #""sync""#, #""value","since":1"#])
  func `a subscription that waits for its turn begins with the state at its turn`(
    _ depth: Depth, _ form: String
  ) async throws {
    try await withServer(depth) { server async throws in
      let writer = try await server.connectAsAdministrator()
      let long = String(repeating: "x", count: 200_000)
      try await writer.value("SET /a {\"k1\":1,\"k2\":\"\(long)\"}")
      let other = try await server.connectAsAdministrator()
      let operations = server.parts.operations
      let gate = Gate()
      async let held: Void = operations.longWork.withTurn(of: nil) { await gate.pass() }
      await gate.reached()
      try await other.send(
        "LISTEN /a {\"events\":\(form),\"orderBy\":\"$key\",\"limitToLast\":5}\n")
      try await server.eventually { operations.longWork.waiting > 0 }
      #expect(try await writer.value("SET /a/k1 12345")["seq"]?.integer == 2)
      gate.open()
      try await held
      let reply = try JSONValue(json: String(try await other.readLine().dropFirst()))
      #expect(reply["seq"]?.integer == 2)
      #expect(try await other.readLine().contains("12345"))
      if form == #""child""# { #expect(try await other.readLine().contains(long)) }
      // No event of the write follows.
      try await other.expect("UNLISTEN 1", "+null")
    }
  }

  @Test func `events up to the state of a subscription are dropped, with their bytes`() throws {
    var session = Session(limits: Limits())
    let listening = Listening(try Path("a"))
    let number = try session.subscribe(
      SubscriptionRequest(subject: .tree(listening), isAuthorized: false), 0)
    let start = ListenStart(listening, Snapshot(root: .absent, sequence: 1))
    #expect(session.started(number, .success(start), isLarge: { _ in true }) { _ in false })
    let before = session.ledger.total
    for bytes in [10, Limits().queuedBytesMax] {
      guard
        case .held = session.admit(
          [], bytes: ValueBytes(json: bytes), for: number, unsentEventBytes: 0)
      else {
        Issue.record("the events are not held")
        return
      }
    }
    // More than may be held: the subscription can begin nevertheless.
    session.restart(number, at: 5)
    #expect(session.ledger.total == before)
    _ = session.admit([], bytes: ValueBytes(json: 3), for: number, unsentEventBytes: 0)
    #expect(session.ledger.heldEvents == 3)
    session.resumed(number, .success(Resumption(stateOf: .absent, listening, bytes: ValueBytes())))
    #expect(session.ledger.heldEvents == 0 && session.ledger.reserved == 0)
    guard case .send(.failure)? = session.nextAction() else { return }
    Issue.record("the subscription does not begin")
  }
}
