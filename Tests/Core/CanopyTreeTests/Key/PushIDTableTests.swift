import CanopyTesting
import Testing

@testable import CanopyTree

struct PushIDTableTests {
  @Test func `each push id has its own entry, in the sequence in which they come`() {
    var random = SeededRandom(printingSeedFor: "PushIDTableTests")
    for _ in 0..<20 {
      var table = PushIDTable(seed: (random.next(), random.next()))
      var expected: [[UInt64]: Int] = [:]
      for _ in 0..<2_000 {
        let (high, low) = (UInt64(random.below(40)), UInt64(random.below(40)))
        let next = expected.count
        let index = expected[[high, low], default: next]
        expected[[high, low]] = index
        let found = table.index(high, low)
        #expect(found == index)
      }
      #expect(table.entries.count == expected.count)
    }
  }

  @Test func `push ids with the same hash have their own entries`() {
    // The product of the hash is zero for all of them.
    var table = PushIDTable(seed: (1, 5))
    for _ in 0..<2 {
      for high in UInt64(0)..<500 {
        let index = table.index(high, 5)
        #expect(index == Int(high))
      }
    }
  }

  // Of 16 places, 12 are used.
  @Test(arguments: [12, 13, 24, 25])
  func `a table that grows keeps its nodes`(count: Int) {
    var table = PushIDTable(seed: (0x1234_5678_9ABC_DEF1, 0xFEDC_BA98_7654_3211))
    for i in 0..<count {
      let index = table.index(UInt64(i), UInt64(i) << 20)
      #expect(table.entries[index].node.isAbsent)
      table.entries[index].node = Node(Int64(i))
    }
    for i in 0..<count {
      let index = table.index(UInt64(i), UInt64(i) << 20)
      #expect(table.entries[index].node == Node(Int64(i)))
    }
    #expect(table.entries.count == count)
  }
}
