import CanopyAccounts
import CanopySession
import CanopyTesting
import Testing

@testable import CanopyEvents

/// The choice of the connections that have a place, and of those that lose it.
@Suite struct ConnectionAllowanceTests {
  /// A connection that a test controls.
  private final class Client: PlaceHolder {
    var time: Int64
    var isBusy = false
    /// The number of times that the time was asked for.
    var looks = 0

    var lastUse: Int64 {
      looks += 1
      return time
    }

    let id: Int

    init(_ id: Int, at time: Int64) {
      (self.id, self.time) = (id, time)
    }
  }

  /// An allowance, and the clients in it.
  private struct Server {
    var allowance: ConnectionAllowance<Client>
    var clients: [Int: Client] = [:]
    var networks: [Int: RemoteNetwork] = [:]
    var lastID = 0

    init(_ connectionsMax: Int, perNetwork: Int) {
      allowance = ConnectionAllowance(connectionsMax: connectionsMax, perNetworkMax: perNetwork)
    }

    /// Lets a client in. Returns its number, and those of the clients that end; or the reason against it.
    mutating func enter(
      _ network: RemoteNetwork, at time: Int64 = 0, shortage: MemoryBudget.Shortage? = nil
    ) -> (id: Int?, ended: [Int], cutOff: [Int], ConnectionAllowance<Client>.Refusal?) {
      lastID += 1
      let client = Client(lastID, at: time)
      let outcome = allowance.enter(
        lastID, client, from: network, shortage: shortage, now: time)
      switch outcome {
      case .refused(let reason): return (nil, [], [], reason)
      case .admitted(let ending, let cutOff):
        clients[lastID] = client
        networks[lastID] = network
        return (lastID, ending.map(\.id), cutOff.map(\.id), nil)
      }
    }

    mutating func close(_ id: Int) {
      guard let network = networks.removeValue(forKey: id) else { return }
      clients[id] = nil
      allowance.leave(id, of: network)
    }

    mutating func move(_ id: Int, to standing: ConnectionPlace.Standing) {
      if let network = networks[id] { allowance.move(id, of: network, to: standing) }
    }
  }

  private static func network(_ number: UInt32) -> RemoteNetwork { .ipv4(number) }

  @Test func `the connections of one address are bounded, apart from those of other addresses`() {
    var server = Server(10, perNetwork: 3)
    let (first, second) = (RemoteNetwork("2001:db8::1"), RemoteNetwork("192.0.2.1"))
    for _ in 0..<3 { #expect(server.enter(first).id != nil) }
    for _ in 0..<5 { #expect(server.enter(RemoteNetwork("2001:db8::2")).3 == .network) }
    for _ in 0..<3 { #expect(server.enter(second).id != nil) }
    #expect(server.enter(RemoteNetwork("::ffff:192.0.2.1")).3 == .network)
    server.close(1)
    #expect(server.enter(first).id != nil)
    #expect(server.enter(first).3 == .network)
    #expect(server.allowance.count == 6 && server.allowance.endedCount == 0)
  }

  @Test func `connections from this machine count only for the bound on all connections`() {
    var server = Server(5, perNetwork: 1)
    for text in ["127.0.0.1", "127.0.0.1", "::1", "::1", "local"] {
      #expect(server.enter(RemoteNetwork(text)).id != nil)
    }
    #expect(server.enter(RemoteNetwork("127.0.0.1")).3 == .total)
    // The newcomer from elsewhere takes the place of one of two.
    #expect(server.enter(RemoteNetwork("192.0.2.1")).ended.count == 1)
  }

  @Test func `addresses without connections take no memory`() {
    var server = Server(1_000, perNetwork: 2)
    let networks = (UInt32(1)...100).map(Self.network)
    for network in networks + networks { #expect(server.enter(network).id != nil) }
    #expect(server.allowance.networkCount == 100)
    for id in 1...200 { server.close(id) }
    #expect(server.allowance.networkCount == 0 && server.allowance.count == 0)
  }

  @Test
  func `at the bound a newcomer takes the place of the longest idle one of the greediest network`()
  {
    var server = Server(6, perNetwork: 10)
    let (greedy, honest, other) = (Self.network(1), Self.network(2), Self.network(3))
    for time in 1...4 { #expect(server.enter(greedy, at: Int64(time)).id == time) }
    for time in 5...6 { #expect(server.enter(honest, at: Int64(time)).id == time) }
    // The greediest one gets nothing.
    #expect(server.enter(greedy, at: 7).3 == .total)
    // Client 1 was used meanwhile, so the longest idle one is 2.
    server.clients[1]?.time = 7
    #expect(server.enter(honest, at: 8).ended == [2])
    // Three each now. A network must keep more than the newcomer's would have.
    #expect(server.enter(honest, at: 9).3 == .total)
    #expect(server.allowance.count == 6 && server.allowance.endedCount == 1)
    #expect(server.enter(other, at: 10).ended.count == 1)
    // Its client is closed later, and was not counted any more.
    server.close(2)
    #expect(server.allowance.count == 6)
  }

  @Test func `a network keeps its only connection, and newcomers are refused`() {
    var server = Server(3, perNetwork: 10)
    for number: UInt32 in 1...3 { #expect(server.enter(Self.network(number)).id != nil) }
    #expect(server.enter(Self.network(4)).3 == .total)
    server.close(1)
    #expect(server.enter(Self.network(2)).id != nil)
    #expect(server.enter(Self.network(4)).ended == [2])
  }

  @Test func `clients that would lose more end later, and a busy one never`() {
    var server = Server(6, perNetwork: 10)
    for time in 1...6 { _ = server.enter(Self.network(1), at: Int64(time)) }
    server.move(1, to: .kept)
    server.move(2, to: .used)
    server.move(3, to: .administrator)
    server.move(4, to: .kept)
    server.move(4, to: .new)
    server.clients[5]?.isBusy = true
    func newcomer(_ number: UInt32) -> [Int] { server.enter(Self.network(number), at: 10).ended }
    // Client 4 is idle for longer than 6. Then come one that has made a request, and one that is signed in.
    #expect(newcomer(2) == [4])
    #expect(newcomer(3) == [6])
    #expect(newcomer(4) == [2])
    #expect(newcomer(5) == [1])
    #expect(server.enter(Self.network(6), at: 10).3 == .total)
    server.clients[5]?.isBusy = false
    server.move(3, to: .used)
    #expect(newcomer(6) == [5])
    server.move(1, to: .used)
    #expect(server.allowance.count == 6, "a client that has lost its place does not get it back")
  }

  @Test func `a network whose connections are all busy is passed over`() {
    var server = Server(7, perNetwork: 10)
    for _ in 0..<4 { _ = server.enter(Self.network(1)) }
    for _ in 0..<3 { _ = server.enter(Self.network(2), at: 5) }
    for id in 1...4 { server.clients[id]?.isBusy = true }
    #expect(server.enter(Self.network(3), at: 6).ended == [5])
    #expect(server.allowance.count == 7)
  }

  @Test
  func `idle connections that hold too much memory make room, and work that does so does not`() {
    var server = Server(100, perNetwork: 100)
    for time in 1...20 { _ = server.enter(Self.network(1), at: Int64(time)) }
    #expect(server.enter(Self.network(2), shortage: .work).3 == .memory)
    #expect(server.enter(Self.network(2), shortage: .idle(excess: 0)).ended == [1])
    #expect(server.enter(Self.network(2), shortage: .idle(excess: 64 * 1024)).ended == [2, 3])
    let much = server.enter(Self.network(2), shortage: .idle(excess: .max / 2))
    #expect(much.ended == Array(4...11))
    #expect(server.enter(Self.network(1), shortage: .idle(excess: 0)).3 == .memory)
  }

  @Test func `few connections are ending at one time`() {
    typealias Allowance = ConnectionAllowance<Client>
    var server = Server(100, perNetwork: 100)
    for time in 1...100 { _ = server.enter(Self.network(1), at: Int64(time)) }
    var ended: [Int] = []
    for number in 1...Allowance.leavingMax {
      let newcomer = server.enter(Self.network(UInt32(number) + 1), at: 200)
      #expect(newcomer.ended.count == 1)
      ended += newcomer.ended
      // The oldest are cut off beyond the bound.
      #expect(newcomer.cutOff == Array(ended.prefix(max(0, number - Allowance.endingMax))))
    }
    #expect(server.enter(Self.network(1_000), at: 200).3 == .total)
    #expect(server.allowance.makeRoom(now: 200) == nil)
    server.close(ended[0])
    #expect(server.enter(Self.network(1_000), at: 200).ended.count == 1)
  }

  @Test func `a listener without a descriptor ends an idle connection of a network with several`() {
    var server = Server(100, perNetwork: 100)
    #expect(server.enter(Self.network(1)).id == 1)
    #expect(server.allowance.makeRoom(now: 1) == nil)
    #expect(server.enter(Self.network(1), at: 1).id == 2)
    #expect(server.allowance.makeRoom(now: 1).map(\.ending.id) == 1)
    #expect(server.allowance.makeRoom(now: 1) == nil)
    #expect(server.allowance.count == 1)
  }

  @Test func `the cost of a choice does not grow with the connections`() {
    var server = Server(10_000, perNetwork: 10_000)
    for number in 0..<10_000 { _ = server.enter(Self.network(UInt32(number % 10)), at: 1) }
    for client in server.clients.values { client.looks = 0 }
    for number: UInt32 in 0..<1_000 {
      guard let last = server.enter(Self.network(1_000 + number), at: 2).ended.first else {
        Issue.record("newcomer \(number) was refused")
        return
      }
      server.close(last)
    }
    #expect(server.clients.values.reduce(0) { $0 + $1.looks } < 10_000)
  }

  @Test func `each choice is right after random changes`() {
    var random = SeededGenerator(printingSeedFor: "places of connections")
    for _ in 0..<50 {
      var server = Server(20, perNetwork: 12)
      var standings: [Int: ConnectionPlace.Standing] = [:]
      for time in Int64(1)...200 {
        let ids = server.clients.keys.sorted()
        switch random.next() % 5 {
        case 0:
          if let id = ids.randomElement(using: &random) { server.close(id) }
        case 1:
          guard let id = ids.randomElement(using: &random) else { break }
          let standing =
            ConnectionPlace.Standing.allCases.randomElement(using: &random) ?? .new
          server.move(id, to: standing)
          standings[id] = standing
        case 2:
          if let id = ids.randomElement(using: &random) {
            server.clients[id]?.time = time
            server.clients[id]?.isBusy = random.next() % 4 == 0
          }
        default: checkNewcomer(&server, &standings, at: time, &random)
        }
        #expect(server.allowance.count == server.clients.count)
      }
    }
  }

  /// Lets a client in, and compares the outcome with that of a search of all clients.
  private func checkNewcomer(
    _ server: inout Server, _ standings: inout [Int: ConnectionPlace.Standing], at time: Int64,
    _ random: inout SeededGenerator
  ) {
    let network = Self.network(UInt32(random.next() % 4))
    var counts: [RemoteNetwork: Int] = [:]
    for network in server.networks.values { counts[network, default: 0] += 1 }
    let own = counts[network] ?? 0
    let before = server
    let outcome = server.enter(network, at: time)
    if let id = outcome.id { standings[id] = .new }
    guard own < 12, before.clients.count >= 20 else {
      #expect(outcome.3 == (own < 12 ? nil : .network) && outcome.ended.isEmpty)
      return
    }
    /// The clients that may end, the first one first.
    func order(_ id: Int) -> (Int, Int, Int64) {
      let network = before.networks[id] ?? network
      return (
        -(counts[network] ?? 0), standings[id]?.rawValue ?? 0, before.clients[id]?.time ?? 0
      )
    }
    let candidates = before.clients.keys.filter { id in
      (counts[before.networks[id] ?? network] ?? 0) > own + 1
        && before.clients[id]?.isBusy == false && standings[id] != .administrator
    }
    // If several networks have the most connections, any of them may lose one.
    let best = Dictionary(grouping: candidates) { before.networks[$0] ?? network }
      .compactMapValues { ids in ids.min { order($0) < order($1) }.map(order) }
    let largest = best.values.map(\.0).min()
    guard let ended = outcome.ended.first else {
      #expect(candidates.isEmpty && outcome.3 == .total)
      return
    }
    let isBest = order(ended) == best[before.networks[ended] ?? network] ?? (0, 0, 0)
    #expect(isBest && order(ended).0 == largest)
    server.close(ended)
  }
}
