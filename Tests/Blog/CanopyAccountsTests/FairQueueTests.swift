import CanopyTesting
import Testing

@testable import CanopyAccounts

@Suite struct FairQueueTests {
  private typealias Queue = FairQueue<String, String>

  /// Adds elements whose names begin with their keys, such as `a1`.
  private func add(_ names: [String], to queue: inout Queue) -> [String] {
    names.map { name in
      switch queue.add(name, for: String(name.prefix(1))) {
      case .added: "added"
      case .replaced(let other): "replaced \(other)"
      case .refused: "refused"
      }
    }
  }

  private func drain(_ queue: inout Queue) -> [String] {
    var order: [String] = []
    while let next = queue.next() { order.append(next) }
    return order
  }

  @Test func `keys are served in turn, each in its own order`() {
    var queue = Queue(countMax: 100, perKeyMax: 100)
    _ = add(["a1", "a2", "a3", "b1", "c1", "c2"], to: &queue)
    #expect(queue.next() == "a1")
    _ = add(["d1", "b2"], to: &queue)
    #expect(drain(&queue) == ["b1", "c1", "a2", "d1", "b2", "c2", "a3"])
    #expect(queue.count == 0)
  }

  @Test func `a key has at most the maximum number of elements`() {
    var queue = Queue(countMax: 100, perKeyMax: 2)
    #expect(add(["a1", "a2", "a3", "b1"], to: &queue) == ["added", "added", "refused", "added"])
    #expect(queue.next() == "a1")
    #expect(add(["a3"], to: &queue) == ["added"])
  }

  @Test
  func `in a full queue, a key with few elements replaces the newest element of the longest key`() {
    var queue = Queue(countMax: 4, perKeyMax: 4)
    _ = add(["a1", "a2", "a3", "b1"], to: &queue)
    #expect(add(["a4"], to: &queue) == ["refused"])
    #expect(add(["c1", "b2"], to: &queue) == ["replaced a3", "refused"], "two would be no less")
    #expect(queue.count == 4)
    #expect(drain(&queue) == ["a1", "b1", "c1", "a2"])
  }

  /// Adds known elements whose names begin with their groups and keys, such as `Xa1`.
  private func addKnown(_ names: [String], to queue: inout Queue) -> [String] {
    names.map { name in
      switch queue.addKnown(
        name, for: String(name.prefix(2)), groupedBy: { String($0.prefix(1)) })
      {
      case .added: "added"
      case .replaced(let other): "replaced \(other)"
      case .refused: "refused"
      }
    }
  }

  @Test
  func `in a full queue, a known element replaces one of the largest group that is not known`() {
    var queue = Queue(countMax: 4, perKeyMax: 2)
    for name in ["Xa1", "Ya1", "Yb1", "Zc1"] { _ = queue.add(name, for: String(name.prefix(2))) }
    guard case .refused = queue.add("Wd1", for: "Wd") else {
      Issue.record("an element that is not known replaces none")
      return
    }
    #expect(addKnown(["Wd1"], to: &queue) == ["replaced Yb1"])
    #expect(addKnown(["Wd2"], to: &queue) == ["replaced Xa1"], "all have as many")
    #expect(addKnown(["Wd3"], to: &queue) == ["refused"], "a key has two at most")
    #expect(addKnown(["We1", "Vf1"], to: &queue) == ["replaced Wd2", "replaced Ya1"])
    #expect(drain(&queue) == ["Zc1", "Wd1", "We1", "Vf1"])
  }

  @Test func `known elements replace each other only for groups with fewer`() {
    var queue = Queue(countMax: 3, perKeyMax: 1)
    #expect(addKnown(["Xa1", "Xb1", "Yc1"], to: &queue) == ["added", "added", "added"])
    #expect(addKnown(["Yd1", "Ze1", "Wf1"], to: &queue) == ["refused", "replaced Xb1", "refused"])
    #expect(drain(&queue) == ["Xa1", "Yc1", "Ze1"])
    var none = Queue(countMax: 0, perKeyMax: 1)
    #expect(addKnown(["Xa1"], to: &none) == ["refused"])
  }

  @Test func `an element is removed from any position`() {
    var queue = Queue(countMax: 9, perKeyMax: 9)
    _ = add(["a1", "a2", "b1"], to: &queue)
    #expect(queue.remove(of: "a") { $0 == "a1" } == "a1")
    #expect(queue.remove(of: "a") { $0 == "a1" } == nil)
    #expect(queue.remove(of: "b") { _ in true } == "b1")
    #expect(queue.remove(of: "c") { _ in true } == nil)
    #expect(drain(&queue) == ["a2"])
  }

  @Test func `a queue without room accepts no element`() {
    var none = Queue(countMax: .min, perKeyMax: 5)
    #expect(add(["a1"], to: &none) == ["refused"])
    var one = Queue(countMax: 5, perKeyMax: .min)
    #expect(add(["a1", "a2"], to: &one) == ["added", "refused"])
  }

  @Test func `the bounds and the turns hold after random operations`() {
    var generator = SeededGenerator(printingSeedFor: "FairQueueTests")
    var queue = FairQueue<Int, Int>(countMax: 12, perKeyMax: 5)
    var lengths = [Int: Int]()
    for number in 0..<5_000 {
      if Int.random(in: 0..<5, using: &generator) < 2 {
        guard let element = queue.next() else { continue }
        lengths[element % 7, default: 0] -= 1
      } else {
        let key = Int.random(in: 0..<7, using: &generator)
        switch queue.add(number * 7 + key, for: key) {
        case .refused: break
        case .added: lengths[key, default: 0] += 1
        case .replaced(let other):
          lengths[key, default: 0] += 1
          lengths[other % 7, default: 0] -= 1
        }
      }
      #expect(queue.count == lengths.values.reduce(0, +) && queue.count <= 12)
      #expect(lengths.values.allSatisfy { (0...5).contains($0) })
    }
  }
}
