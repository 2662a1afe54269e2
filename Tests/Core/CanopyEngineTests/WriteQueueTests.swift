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
  }

  private func names(_ entries: some Sequence<WriteQueue.Entry>) -> [String] {
    entries.compactMap { $0.request as? Request }.map { request in
      guard case .address(let name) = request.owner else { return "server\(request.number)" }
      return "\(name)\(request.number)"
    }
  }

  private func add(_ queue: inout WriteQueue, _ name: String, _ numbers: ClosedRange<Int>) -> Int {
    let owner = WriteOwner.address(name)
    return numbers.count { queue.add(Request(owner, $0), of: owner) }
  }

  @Test func `requests that fit in a batch keep their order`() {
    var queue = WriteQueue(countMax: 100)
    #expect(add(&queue, "a", 1...3) == 3 && add(&queue, "b", 1...1) == 1)
    #expect(names(queue.takeBatch(atMost: 4)) == ["a1", "a2", "a3", "b1"])
    #expect(queue.isEmpty)
  }

  @Test func `owners are served in turn when the requests do not fit in a batch`() {
    var queue = WriteQueue(countMax: 100)
    _ = add(&queue, "a", 1...5)
    _ = add(&queue, "b", 1...2)
    #expect(names(queue.takeBatch(atMost: 3)) == ["a1", "b1", "a2"])
    // A new owner waits for one round.
    _ = add(&queue, "c", 1...1)
    #expect(names(queue.takeBatch(atMost: 3)) == ["b2", "a3", "c1"])
    #expect(names(queue.takeBatch(atMost: 3)) == ["a4", "a5"])
    #expect(queue.isEmpty && queue.takeBatch(atMost: 3).isEmpty)
  }

  @Test func `requests that are put back come before later ones, and owners are served in turn`() {
    var queue = WriteQueue(countMax: 100)
    _ = add(&queue, "a", 1...4)
    _ = add(&queue, "b", 1...2)
    let batch = queue.takeBatch(atMost: 10)
    _ = add(&queue, "b", 3...3)
    _ = add(&queue, "c", 1...1)
    queue.putBack(batch.dropFirst())
    #expect(queue.count == 7)
    let rest = names(queue.takeBatch(atMost: 10))
    #expect(Set(rest.prefix(3)) == ["a2", "b1", "c1"] && rest.count == 7, "\(rest)")
    #expect(rest.filter { $0.hasPrefix("a") } == ["a2", "a3", "a4"])
    #expect(rest.filter { $0.hasPrefix("b") } == ["b1", "b2", "b3"])
    queue.putBack([])
    #expect(queue.isEmpty)
  }

  @Test func `the owner of an unfinished request has its next turn after all that wait`() {
    var queue = WriteQueue(countMax: 100)
    _ = add(&queue, "a", 1...2)
    _ = add(&queue, "b", 1...1)
    let batch = queue.takeBatch(atMost: 10)
    _ = add(&queue, "c", 1...1)
    queue.putBack(batch, isFirstUnfinished: true)
    let next = queue.takeBatch(atMost: 10)
    #expect(names(next) == ["b1", "c1", "a1", "a2"])
    queue.putBack(next.suffix(2), isFirstUnfinished: true)
    #expect(names(queue.takeBatch(atMost: 10)) == ["a1", "a2"])
  }

  @Test(arguments: [1, 2, 5], [1, 10])
  func
    `an owner with one request waits for one request of each other owner, if a batch carries out one`(
      _ others: Int, _ before: Int
    )
  {
    var queue = WriteQueue(countMax: 1_000)
    for other in 0..<others { _ = add(&queue, "other\(other)-", 1...20) }
    for batch in 0..<before + others + 1 {
      if batch == before { _ = add(&queue, "honest-", 1...1) }
      let taken = queue.takeBatch(atMost: 1_000)
      if names(taken.prefix(1)) == ["honest-1"] { return }
      queue.putBack(taken.dropFirst())
      // Each of the others goes on to send.
      for other in 0..<others { _ = add(&queue, "other\(other)-", 100 + batch...100 + batch) }
    }
    Issue.record("the request was not carried out")
  }

  @Test func `one owner gets an eighth of the queue, and a full queue takes requests of others`() {
    var queue = WriteQueue(countMax: 80)
    #expect(add(&queue, "a", 1...81) == 80, "the bound of all holds for the first")
    #expect(queue.takeBatch(atMost: 10).count == 10)
    #expect(add(&queue, "a", 81...81) == 0, "it has more than an eighth")
    #expect(add(&queue, "b", 1...1) == 1)
    #expect(names(queue.takeBatch(atMost: 2)) == ["a11", "b1"])
  }

  @Test func `a request of the engine is always taken`() {
    var queue = WriteQueue(countMax: 1)
    _ = add(&queue, "a", 1...1)
    queue.add(own: Request(.server, 1))
    #expect(names(queue.takeAll()) == ["a1", "server1"])
  }

  @Test(arguments: 0..<20)
  func `every owner's requests come in their order, once, and none waits for more than a round`(
    seed: UInt64
  ) {
    var random = SeededGenerator(seed: seed)
    var queue = WriteQueue(countMax: 10_000)
    var added: [String: Int] = [:]
    var taken: [String: Int] = [:]
    for _ in 0..<200 {
      let name = ["a", "b", "c", "d"][Int.random(in: 0..<4, using: &random)]
      for _ in 0..<Int.random(in: 0..<20, using: &random) {
        let number = added[name, default: 0] + 1
        if add(&queue, name, number...number) == 1 { added[name] = number }
      }
      var batch = queue.takeBatch(atMost: Int.random(in: 1...12, using: &random))
      if random.oneIn(3) {
        // The batch ends early.
        let count = Int.random(in: 0...batch.count, using: &random)
        queue.putBack(batch[count...])
        batch = Array(batch.prefix(count))
      }
      for entry in batch {
        guard let request = entry.request as? Request, case .address(let name) = request.owner
        else {
          continue
        }
        #expect(request.number == taken[name, default: 0] + 1, "seed \(seed)")
        taken[name] = request.number
      }
    }
    for entry in queue.takeAll() {
      guard let request = entry.request as? Request, case .address(let name) = request.owner else {
        continue
      }
      #expect(request.number == taken[name, default: 0] + 1, "seed \(seed)")
      taken[name] = request.number
    }
    #expect(taken == added && queue.count == 0, "seed \(seed)")
  }
}
