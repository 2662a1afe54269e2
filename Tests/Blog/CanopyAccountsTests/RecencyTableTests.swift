import CanopyTesting
import Testing

@testable import CanopyAccounts

@Suite struct RecencyTableTests {
  @Test func `a full table replaces the least recently used entry`() {
    var table = RecencyTable<String, Int>(capacity: 3)
    for (value, key) in ["a", "b", "c"].enumerated() { table.set(value, for: key) }
    table.touch("a")
    #expect(table["b"] == 1, "reading is not touching")
    #expect(table.set(3, for: "d") == 1)
    #expect(table.count == 3)
    #expect(table["b"] == nil)
    #expect(table.keysByRecency == ["d", "a", "c"])
    #expect(table.set(4, for: "c") == nil)
    table.set(5, for: "e")
    #expect(table["a"] == nil)
    #expect(table["c"] == 4)
  }

  @Test func `a table has room for at least one entry`() {
    for capacity in [Int.min, -1, 0, 1] {
      var table = RecencyTable<Int, Int>(capacity: capacity)
      table.set(1, for: 1)
      table.set(2, for: 2)
      #expect(table.keysByRecency == [2])
    }
  }

  @Test func `a table behaves like a list in the order of the last use`() {
    var generator = SeededGenerator(printingSeedFor: "RecencyTableTests")
    for capacity in 1...6 {
      var table = RecencyTable<Int, Int>(capacity: capacity)
      var model: [(key: Int, value: Int)] = []
      for step in 0..<2_000 {
        let key = Int.random(in: 0..<9, using: &generator)
        let known = model.firstIndex { $0.key == key }
        switch Int.random(in: 0..<4, using: &generator) {
        case 0:
          table.remove(key)
          if let known { model.remove(at: known) }
        case 1:
          table.touch(key)
          if let known { model.insert(model.remove(at: known), at: 0) }
        default:
          table.set(step, for: key)
          if let known { model.remove(at: known) }
          model.insert((key, step), at: 0)
          if model.count > capacity { model.removeLast() }
        }
        #expect(table.keysByRecency == model.map(\.key))
        #expect(table.count == model.count)
        for key in 0..<9 { #expect(table[key] == model.first { $0.key == key }?.value) }
      }
    }
  }
}
