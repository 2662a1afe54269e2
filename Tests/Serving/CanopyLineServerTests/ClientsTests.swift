import CanopyEngine
import CanopyTesting
import CanopyTree
import CanopyWire
import Testing

@testable import CanopyEvents
@testable import CanopyLineServer
@testable import CanopySession

/// The administrator's verbs about connections.
@Suite(.timeLimit(.minutes(20))) struct ClientsTests {
  private func clients(_ reply: JSONValue) -> [JSONValue] { reply["clients"]?.elements ?? [] }

  private func number(of client: JSONValue?) throws -> Int64 {
    guard case .leaf(let node)? = client?["id"] else {
      throw LineClientError.unexpected("\(String(describing: client))")
    }
    return try #require(node.integerValue)
  }

  @Test(arguments: Depth.allCases)
  func `CLIENTS has the open connections in pages, with their users and numbers`(
    _ depth: Depth
  ) async throws {
    try await withServer(depth) { server in
      let administrator = try await server.connectAsAdministrator()
      let ada = try await server.connect(as: "ada")
      let other = try await server.connect()
      _ = try await other.request("PING")
      _ = try await ada.begin("LISTEN /posts {\"limitToLast\":2}")
      let all = clients(try await administrator.value("CLIENTS"))
      #expect(all.count == 3)
      #expect(all.map { $0["self"] } == [.leaf(true), .leaf(false), .leaf(false)])
      #expect(all[0]["user"]?["administrator"] == .leaf(true))
      #expect(all[1]["user"]?["username"]?.string == "ada" && all[2]["user"] == .null)
      #expect(all.map { $0["subscriptions"] } == [.leaf(0), .leaf(1), .leaf(0)])
      for client in all {
        #expect(client["protocol"]?.string == "line" && client["namespace"]?.string == "default")
        #expect(client["since"] == .leaf(Node(server.parts.clock.now)))
        #expect(client["bytes"] != nil && client["armed"] == .leaf(0))
      }
      let ids = try all.map { try number(of: $0) }
      #expect(ids == ids.sorted() && Set(ids).count == 3)
      let first = try await administrator.value(#"CLIENTS {"limit":2}"#)
      #expect(try clients(first).map { try number(of: $0) } == Array(ids.prefix(2)))
      #expect(first["more"] == .leaf(true) && first["unanswered"] == .leaf(0))
      let rest = try await administrator.value("CLIENTS {\"limit\":2,\"after\":\(ids[1])}")
      #expect(
        try clients(rest).map { try number(of: $0) } == [ids[2]] && rest["more"] == .leaf(false))
      await other.disconnect()
      try await server.eventually {
        clients(try await administrator.value("CLIENTS")).count == 2
      }
    }
  }

  @Test(arguments: Depth.allCases)
  func `CLIENT has the subscriptions and the paths of the on-disconnect writes`(
    _ depth: Depth
  ) async throws {
    try await withServer(depth) { server in
      let administrator = try await server.connectAsAdministrator()
      let ada = try await server.connectAsAdministrator()
      _ = try await ada.begin(
        #"LISTEN /a/b {"orderBy":"n/m","startAt":[1,"k"],"endBefore":"x","limitToLast":2,"events":"sync"}"#
      )
      _ = try await ada.begin(#"LISTEN / {"orderBy":"$key","equalTo":"c","events":"value"}"#)
      _ = try await ada.begin("LISTEN /.info/connected")
      try await ada.value("ONDISCONNECT SET /on/ada true")
      try await ada.value(#"ONDISCONNECT UPDATE /on {"b":1,"c":2}"#)
      let id = try number(of: clients(try await administrator.value("CLIENTS")).last)
      let reply = try await administrator.value("CLIENT \(id)")
      #expect(reply["subscriptions"] == .leaf(3) && reply["armed"] == .leaf(2))
      let listens = try JSONValue(
        json: #"""
          [{"sub":1,"path":"/a/b","query":{"orderBy":"n/m","startAt":[1,"k"],"endBefore":"x","limitToLast":2},"events":"sync"},
           {"sub":2,"path":"/","query":{"orderBy":"$key","equalTo":"c"},"events":"value"},
           {"sub":3,"path":null,"query":{},"events":"value"}]
          """#)
      #expect(reply["listens"] == listens)
      #expect(
        reply["onDisconnect"]?.elements?.map { $0.string } == ["/on/ada", "/on/b", "/on/c"])
      let short = try await administrator.value("CLIENT \(id) {\"limit\":2}")
      #expect(short["listens"]?.elements?.count == 2)
      #expect(short["onDisconnect"]?.elements?.count == 2 && short["subscriptions"] == .leaf(3))
      try await administrator.expect("CLIENT \(id + 1_000)", failsWith: "NOT_FOUND")
    }
  }

  @Test(arguments: Depth.allCases)
  func `ENDCLIENT ends a connection with a reason, and its on-disconnect writes are made`(
    _ depth: Depth
  ) async throws {
    try await withServer(depth) { server in
      let administrator = try await server.connectAsAdministrator()
      let other = try await server.connectAsAdministrator()
      try await other.value("ONDISCONNECT SET /gone true")
      let all = clients(try await administrator.value("CLIENTS"))
      let (own, id) = (try number(of: all.first), try number(of: all.last))
      try await administrator.expect("ENDCLIENT \(own)", failsWith: "CONFLICT", "QUIT")
      try await administrator.expect("ENDCLIENT \(id)", "+null")
      try await other.expectNext(
        to: "ENDCLIENT of another connection",
        hasPrefix: "-UNAVAILABLE the administrator has ended")
      try await other.expectClosed()
      try await server.eventually { server.root.at(try Path("/gone")).boolValue == true }
      try await server.eventually {
        try await administrator.code("ENDCLIENT \(id)") == "NOT_FOUND"
      }
    }
  }

  @Test func `an event loop that does not answer is counted, and the others are shown`()
    async throws
  {
    let registry = ClientRegistry()
    _ = registry.add(FixedSource(ids: [5, 9]))
    let silent = registry.add(FixedSource(ids: nil))
    _ = registry.add(FixedSource(ids: [7]))
    let answer = await registry.ask(.page(after: 0, limit: 10), patience: .zero)
    #expect(answer.clients.map(\.id) == [5, 7, 9] && answer.unanswered == 1)
    registry.remove(source: silent)
    let later = await registry.ask(.page(after: 0, limit: 10), patience: .seconds(60))
    #expect(later.clients.map(\.id) == [5, 7, 9] && later.unanswered == 0)
    #expect(await ClientRegistry().ask(.one(1, listMax: 1)).clients.isEmpty)
  }

  @Test func `the list of connections is that of a model after any additions and removals`() {
    var random = SeededGenerator(printingSeedFor: "list of connections")
    var list = CanopyEvents.ClientList()
    var model: [Int64] = []
    let client = NoClient()
    for id in 1...2_000 as ClosedRange<Int64> {
      list.append(client, id)
      model.append(id)
      for _ in 0..<Int.random(in: 0...2, using: &random) {
        let removed = Int64.random(in: 1...id + 1, using: &random)
        list.remove(removed)
        model.removeAll { $0 == removed }
      }
      let after = Int64.random(in: -1...id + 1, using: &random)
      #expect(list.count == model.count)
      #expect((list.find(after) != nil) == model.contains(after))
      #expect(
        list.page(after: after, limit: 3).map(\.id)
          == Array(model.filter { $0 > after }.prefix(3)))
    }
    #expect(list.page(after: .max, limit: 3).isEmpty && list.page(after: .min, limit: 0).isEmpty)
  }
}

/// Connections that answer at once, or never.
private struct FixedSource: ClientSource {
  let ids: [Int64]?

  func ask(
    _ question: ClientQuestion, _ answer: @escaping @Sendable ([ClientState]) -> Void
  ) {
    guard let ids else { return }
    answer(
      ids.map { ClientState(id: $0, .line, address: "local", since: 0, namespace: .default) })
  }
}

private final class NoClient: LoopClient {
  func clientState(_ id: Int64, listMax: Int) -> ClientState {
    ClientState(id: id, .line, address: "local", since: 0, namespace: .default)
  }

  func endClient(_ error: WireError) {}
}
