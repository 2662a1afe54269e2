import CanopyTesting
import CanopyTree
import Testing

@testable import CanopyEngine

/// The order in which the engine serves its writers.
struct WriteQueueTests {
  private final class Request: PendingRequest {
    let owner: WriteOwner
    let number: Int
    let name: StaticString = "test"

    init(_ owner: WriteOwner, _ number: Int) {
      self.owner = owner
      self.number = number
    }

    func run(in batch: inout Batch) -> Bool { true }
    func complete(_ failure: EngineError?) {}
    func rollBack() {}
  }

  private func names(_ entries: some Sequence<WriteQueue.Entry>) -> [String] {
    entries.compactMap { $0.request as? Request }.map { request in
      guard case .address(let name, _) = request.owner else { return "server\(request.number)" }
      return "\(name)\(request.number)"
    }
  }

  /// Takes a batch, and ends it as if each request had taken some time.
  private func serve(
    _ queue: inout WriteQueue, atMost countMax: Int, _ time: Duration = .zero
  ) -> [String] {
    let batch = queue.takeBatch(atMost: countMax, at: .zero).entries
    queue.endBatch(batch.map { ($0.owner, time) }, unserved: [])
    return names(batch)
  }

  private func add(_ queue: inout WriteQueue, _ name: String, _ numbers: ClosedRange<Int>) -> Int {
    let owner = WriteOwner.address(name)
    return numbers.count { queue.add(Request(owner, $0), of: owner) }
  }

  @Test func `requests that fit in a batch keep their order`() {
    var queue = WriteQueue(countMax: 100)
    #expect(add(&queue, "a", 1...3) == 3 && add(&queue, "b", 1...1) == 1)
    let batch = queue.takeBatch(atMost: 4, at: .zero)
    #expect(names(batch.entries) == ["a1", "a2", "a3", "b1"] && !batch.isInTurn)
    #expect(queue.isEmpty)
  }

  @Test func `owners are served in turn when the requests do not fit in a batch`() {
    var queue = WriteQueue(countMax: 100)
    _ = add(&queue, "a", 1...5)
    _ = add(&queue, "b", 1...2)
    #expect(serve(&queue, atMost: 3) == ["a1", "b1", "a2"])
    // A new owner waits for those that have used no more than it.
    _ = add(&queue, "c", 1...1)
    #expect(serve(&queue, atMost: 3) == ["c1", "b2", "a3"])
    #expect(serve(&queue, atMost: 3) == ["a4", "a5"])
    #expect(queue.isEmpty && serve(&queue, atMost: 3).isEmpty)
  }

  @Test func `turns go by the time that requests take, not by their number`() {
    var queue = WriteQueue(countMax: 1_000)
    _ = add(&queue, "slow", 1...50)
    _ = add(&queue, "quick", 1...200)
    var served: [String: Int] = [:]
    for _ in 0..<60 {
      // A batch carries out one request.
      let batch = queue.takeBatch(atMost: 1_000, at: .zero).entries
      guard let first = batch.first, let name = names([first]).first else { break }
      let isSlow = name.hasPrefix("slow")
      served[isSlow ? "slow" : "quick", default: 0] += 1
      queue.endBatch(
        [(first.owner, .milliseconds(isSlow ? 10 : 1))], unserved: batch.dropFirst())
    }
    // Each of them has used as much time.
    #expect(served == ["slow": 6, "quick": 54], "\(served)")
  }

  @Test func `requests that are put back come before later ones of their owner`() {
    var queue = WriteQueue(countMax: 100)
    _ = add(&queue, "a", 1...4)
    _ = add(&queue, "b", 1...2)
    let batch = queue.takeBatch(atMost: 10, at: .zero).entries
    _ = add(&queue, "b", 3...3)
    _ = add(&queue, "c", 1...1)
    queue.endBatch([(batch[0].owner, .milliseconds(1))], unserved: batch.dropFirst())
    #expect(queue.count == 7)
    let rest = names(queue.takeBatch(atMost: 10, at: .zero).entries)
    #expect(rest == ["b1", "c1", "b2", "b3", "a2", "a3", "a4"])
    queue.endBatch([], unserved: [])
    #expect(queue.isEmpty)
  }

  @Test func `the owner of an unfinished request has its next turn after all that wait`() {
    var queue = WriteQueue(countMax: 100)
    _ = add(&queue, "a", 1...2)
    _ = add(&queue, "b", 1...1)
    let batch = queue.takeBatch(atMost: 10, at: .zero).entries
    _ = add(&queue, "c", 1...1)
    queue.endBatch([(batch[0].owner, .zero)], unserved: batch)
    let next = queue.takeBatch(atMost: 10, at: .zero).entries
    #expect(names(next) == ["b1", "c1", "a1", "a2"])
    queue.endBatch([], unserved: next.suffix(2))
    #expect(serve(&queue, atMost: 10) == ["a1", "a2"])
  }

  @Test func `an owner that was not served keeps its place among those that have used as much`() {
    var queue = WriteQueue(countMax: 1_000)
    for name in ["a", "b", "c", "d"] { _ = add(&queue, name, 1...1) }
    for expected in ["a1", "b1", "c1", "d1"] {
      let batch = queue.takeBatch(atMost: 1_000, at: .zero).entries
      #expect(names(batch.prefix(1)) == [expected])
      queue.endBatch([(batch[0].owner, .milliseconds(20))], unserved: batch.dropFirst())
      _ = add(&queue, "later-\(expected)", 1...1)
    }
  }

  /// The engine with a simulated clock: batches end after 10 ms, and each client sends the next request when the last one
  /// is answered.
  private struct Simulation {
    struct Client {
      let owner: WriteOwner
      /// The time that each request takes at the writer.
      let cost: Duration
      /// The requests that it has outstanding.
      var depth = 1
      /// The time from an answer to the next request.
      var pause = Duration.zero
    }

    /// The longest and the median time from a request to its answer, by client.
    func waits(
      of clients: [Client], for end: Duration
    ) -> [(longest: Duration, median: Duration, count: Int)] {
      var queue = WriteQueue(countMax: 100_000)
      var time = Duration.zero
      var sent: [[Duration]] = clients.map { _ in [] }
      var due: [(time: Duration, client: Int)] = []
      var waits: [[Duration]] = clients.map { _ in [] }
      for (index, client) in clients.enumerated() {
        for _ in 0..<client.depth { due.append((.zero, index)) }
      }
      while time < end {
        for (at, index) in due where at <= time {
          let isAccepted = queue.add(
            Request(clients[index].owner, index), of: clients[index].owner)
          #expect(isAccepted)
          sent[index].append(at)
        }
        due.removeAll { $0.time <= time }
        let batch = queue.takeBatch(atMost: 1_000, at: time).entries
        guard !batch.isEmpty else {
          time = due.map(\.time).min() ?? end
          continue
        }
        var served: [(owner: WriteOwner, time: Duration)] = []
        let start = time
        var rest = batch[...]
        var answered: [Int] = []
        while time - start < Engine.batchTimeMax, let entry = rest.popFirst() {
          guard let index = (entry.request as? Request)?.number else { continue }
          time += clients[index].cost
          served.append((entry.owner, clients[index].cost))
          answered.append(index)
        }
        queue.endBatch(served, unserved: rest)
        // The append to the journal.
        time += .milliseconds(1)
        for index in answered {
          waits[index].append(time - sent[index].removeFirst())
          due.append((time + clients[index].pause, index))
        }
      }
      return waits.map { waits in
        let sorted = waits.sorted()
        return (
          sorted.last ?? .zero, sorted.isEmpty ? .zero : sorted[sorted.count / 2], sorted.count
        )
      }
    }
  }

  @Test(arguments: [(1, 4, 17_000), (100, 2, 3_400), (100, 4, 17_000)])
  func `a client with one small request at a time waits for one batch of many busy accounts`(
    _ accounts: Int, _ depth: Int, _ microseconds: Int
  ) throws {
    var clients = (0..<accounts).map {
      Simulation.Client(
        owner: .address("busy\($0)"), cost: .microseconds(microseconds), depth: depth)
    }
    clients.append(
      .init(owner: .address("honest"), cost: .microseconds(100), pause: .milliseconds(30)))
    let waits = Simulation().waits(of: clients, for: .seconds(10))
    let honest = try #require(waits.last)
    // The rest of a batch, and its own.
    let batch = Engine.batchTimeMax + .microseconds(microseconds) + .milliseconds(1)
    #expect(honest.median <= batch + .milliseconds(12), "\(honest)")
    // Only at the beginning, when no client has used any time, it may wait for a turn of each of them.
    #expect(honest.count > 100, "\(honest)")
    // The accounts share the time evenly.
    let counts = waits.dropLast().map(\.count)
    let most = try #require(counts.max())
    #expect(most - (counts.min() ?? 0) <= 2 + most / 8, "\(counts)")
  }

  @Test func `all accounts of a network use as much time as one account of another`() throws {
    var clients = (0..<100).map {
      Simulation.Client(
        owner: .address("\($0)", network: "192.0.2.1"), cost: .milliseconds(3), depth: 2)
    }
    clients.append(
      .init(
        owner: .address("other", network: "198.51.100.7"), cost: .milliseconds(1), depth: 20))
    let waits = Simulation().waits(of: clients, for: .seconds(5))
    let network = waits.dropLast().reduce(0) { $0 + 3 * $1.count }
    let other = try #require(waits.last).count
    #expect(abs(network - other) < other / 10, "\(network) ms and \(other) ms")
    let counts = waits.dropLast().map(\.count)
    let most = try #require(counts.max())
    #expect(most - (counts.min() ?? 0) <= 2 + most / 8, "\(counts)")
  }

  @Test func `an owner that has used much is not overtaken for ever by new ones`() {
    var queue = WriteQueue(countMax: 1_000)
    var time = Duration.zero
    _ = add(&queue, "heavy", 1...2)
    _ = add(&queue, "other", 1...1)
    let batch = queue.takeBatch(atMost: 1, at: time).entries
    queue.endBatch([(batch[0].owner, .milliseconds(20))], unserved: [])
    for number in 0..<1_000 {
      _ = add(&queue, "new\(number)-", 1...1)
      let batch = queue.takeBatch(atMost: 1, at: time).entries
      queue.endBatch(batch.map { ($0.owner, .milliseconds(20)) }, unserved: [])
      if names(batch) == ["heavy2"] {
        // 20 ms are 2^10 times the time of a new owner.
        #expect(time > .seconds(8) && time < .seconds(12), "\(time)")
        return
      }
      time += .milliseconds(21)
    }
    Issue.record("the request was not carried out")
  }

  @Test func `owners are served in turn while one of them has used time that still counts`() {
    var queue = WriteQueue(countMax: 100)
    func isInTurn(at time: Duration, _ owners: String...) -> Bool {
      for owner in owners { _ = add(&queue, owner, 1...1) }
      let batch = queue.takeBatch(atMost: 10, at: time)
      queue.endBatch([], unserved: [])
      return batch.isInTurn
    }
    #expect(!isInTurn(at: .zero, "a", "b"))
    queue.endBatch([(.address("a", network: nil), .milliseconds(20))], unserved: [])
    #expect(!isInTurn(at: .seconds(1), "b", "c"), "the owner is not among them")
    #expect(isInTurn(at: .seconds(9), "a", "b"))
    #expect(!isInTurn(at: .seconds(10), "a", "b"))
  }

  @Test func `one owner gets an eighth of the queue, and a full queue takes requests of others`() {
    var queue = WriteQueue(countMax: 800)
    #expect(add(&queue, "a", 1...801) == 100, "also before the first batch")
    for owner in ["b", "c", "d", "e", "f", "g", "h"] {
      #expect(add(&queue, owner, 1...801) == 100, "\(owner)")
    }
    #expect(queue.count == 800 && add(&queue, "a", 801...801) == 0)
    #expect(add(&queue, "i", 1...1) == 1)
    #expect(serve(&queue, atMost: 10).count == 10)
    #expect(add(&queue, "a", 101...103) == 3, "the latest ones are not counted by owner yet")
    #expect(serve(&queue, atMost: 1) == ["b2"])
  }

  @Test func `a request of the engine is always taken`() {
    var queue = WriteQueue(countMax: 1)
    _ = add(&queue, "a", 1...1)
    queue.add(own: Request(.server, 1))
    #expect(names(queue.takeAll()) == ["a1", "server1"])
  }

  @Test(arguments: 0..<20)
  func `every owner's requests come in their order, once, however long they take`(
    seed: UInt64
  ) {
    var random = SeededGenerator(seed: seed)
    var queue = WriteQueue(countMax: 10_000)
    var time = Duration.zero
    var added: [String: Int] = [:]
    var taken: [String: Int] = [:]
    for _ in 0..<200 {
      let name = ["a", "b", "c", "d"][Int.random(in: 0..<4, using: &random)]
      for _ in 0..<Int.random(in: 0..<20, using: &random) {
        let number = added[name, default: 0] + 1
        if add(&queue, name, number...number) == 1 { added[name] = number }
      }
      time += .milliseconds(Int.random(in: 0...500, using: &random))
      var batch = queue.takeBatch(atMost: Int.random(in: 1...12, using: &random), at: time).entries
      // The batch may end early.
      let count = random.oneIn(3) ? Int.random(in: 0...batch.count, using: &random) : batch.count
      let unserved = batch[count...]
      batch = Array(batch.prefix(count))
      queue.endBatch(
        batch.map { ($0.owner, .microseconds(Int.random(in: 0...9_000, using: &random))) },
        unserved: unserved)
      for entry in batch {
        guard let request = entry.request as? Request, case .address(let name, _) = request.owner
        else {
          continue
        }
        #expect(request.number == taken[name, default: 0] + 1, "seed \(seed)")
        taken[name] = request.number
      }
    }
    for entry in queue.takeAll() {
      guard let request = entry.request as? Request, case .address(let name, _) = request.owner
      else {
        continue
      }
      #expect(request.number == taken[name, default: 0] + 1, "seed \(seed)")
      taken[name] = request.number
    }
    #expect(taken == added && queue.count == 0, "seed \(seed)")
  }
}
