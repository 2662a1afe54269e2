import ArgumentParser
import CanopyClient
import CanopyTree
import Foundation

/// Measures a write in the client library without a server, from the call to its events.
struct ClientCore: ParsableCommand {
  static let configuration = CommandConfiguration(
    abstract: "Measure local writes and queued offline writes of the client library.")

  @Option(help: "The number of children in the observed list.") var children = 100_000
  @Option(help: "The number of writes measured one by one.") var samples = 20_000
  @Option(help: "The number of writes queued offline and then confirmed.") var queued = 10_000

  func run() throws {
    let list = try Path("list")
    var tree = try filled(list)
    var random = SplitMix64(seed: 1)
    var ids: [WriteID] = []
    let sets = try measure(samples) { index in
      let child = Key(index: Int32(truncatingIfNeeded: random.next() % UInt64(max(1, children))))
      let place = Location(list.child(child).child("n"))
      let write = try Write.set(place, WriteValue(Node(Int64(index) + 1_000_000)))
      return {
        let (id, effects) = tree.write(write, at: 0)
        ids.append(id)
        return effects.events.count
      }
    }
    report("set of one child of \(children), listened to as a whole", sets)
    let acknowledgements = measure(ids.count) { index in
      let id = ids[index]
      return { tree.refused(id).events.count }
    }
    report("refusal of one of \(ids.count) such sets, oldest first", acknowledgements)

    var offline = try filled(list)
    var queue: [WriteID] = []
    let first = Int32(truncatingIfNeeded: children)
    let adds = try measure(queued) { index in
      let place = Location(list.child(Key(index: first + Int32(truncatingIfNeeded: index))))
      let write = try Write.set(place, WriteValue(Node(Int64(index))))
      return {
        let (id, effects) = offline.write(write, at: 0)
        queue.append(id)
        return effects.events.count
      }
    }
    report("one of \(queued) new children queued offline", adds)
    let starts = offline.connected().starts
    guard let tag = starts.first?.tag else { throw BenchFailure("the client has no listener") }
    let sends = measure(queued) { _ in { offline.nextRequest() == nil ? 0 : 1 } }
    report("taking one of them to send", sends)
    let confirmations = measure(queued) { index in
      let key = Key(index: first + Int32(truncatingIfNeeded: index))
      let data = Assignment(Path.root.child(key), Node(Int64(index)))
      let id = queue[index]
      return {
        let told = offline.changed(tag, [data], isPatch: true, sequence: 2).events.count
        return told + offline.acknowledged(id).events.count
      }
    }
    report("the server's data and confirmation of one of them", confirmations)
    guard confirmations.events == 0 else { throw BenchFailure("a confirmation caused an event") }
  }

  /// Creates a client that listens to a list and has received it.
  private func filled(_ list: Path) throws -> SyncTree {
    var tree = SyncTree()
    let spec = QuerySpec(list)
    _ = tree.listen(ListenerID(1), to: spec, for: .all)
    guard let tag = tree.connected().starts.first?.tag else {
      throw BenchFailure("the client has no listener")
    }
    let nodes = (0..<Int32(truncatingIfNeeded: children)).map { index in
      let members: [(Key, Node)] = [("n", Node(Int64(index))), ("text", "hello")]
      return (Key(index: index), Node(children: members))
    }
    let data = [Assignment(.root, Node(children: nodes))]
    _ = tree.changed(tag, data, isPatch: false, sequence: 1)
    _ = tree.disconnected()
    return tree
  }

  private struct Times {
    var nanoseconds: [UInt64]
    var events: Int
  }

  /// Measures the closures that `prepare` returns, without the preparation.
  private func measure(_ count: Int, _ prepare: (Int) throws -> () -> Int) rethrows -> Times {
    var times = Times(nanoseconds: [], events: 0)
    times.nanoseconds.reserveCapacity(count)
    let clock = ContinuousClock()
    for index in 0..<count {
      let body = try prepare(index)
      let start = clock.now
      let events = body()
      let duration = clock.now - start
      times.nanoseconds.append(UInt64(max(0, duration / .nanoseconds(1))))
      times.events += events
    }
    return times
  }

  private func report(_ name: String, _ times: Times) {
    let sorted = times.nanoseconds.sorted()
    func microseconds(_ quantile: Double) -> String {
      guard !sorted.isEmpty else { return "-" }
      let index = min(sorted.count - 1, Int(quantile * Double(sorted.count)))
      return String(format: "%.1f", Double(sorted[index]) / 1000)
    }
    print(
      "\(name): median \(microseconds(0.5)) µs, p99 \(microseconds(0.99)) µs, "
        + "max \(microseconds(1)) µs, \(times.events) events")
  }
}
