#if CANOPY_COUNT_WORK
  import Testing

  @testable import CanopyTree

  /// The cost of reading JSON: it grows with the bytes, not with their square.
  struct JSONReadingWorkTests {
    @Test(
      arguments: [
        "[1]", "[1,null]", "[[[1]]]", "[{\"a\":1}]", "{\"a\":1}", "{\"b\":1,\"a\":2}",
        "{\"a\":[1]}", "{\"a\":null}", "{\"a\":{\".value\":1,\".priority\":2}}",
      ])
    func `reading many small values copies none of those read before`(element: String) throws {
      for (open, key, close) in [("[", "", "]"), ("{", "\"", "}")] {
        func text(_ count: Int) -> String {
          let elements = (0..<count).map { i in
            key.isEmpty ? element : "\"\(1_000_000 + i)\":\(element)"
          }
          return open + elements.joined(separator: ",") + close
        }
        let (few, many) = (text(500), text(5_000))
        var count = 0
        let small = try WorkCounter.nodesTouched { count += try Node(json: few).childCount }
        let large = try WorkCounter.nodesTouched { count += try Node(json: many).childCount }
        #expect(large <= 12 * small + 1_000, "\(open)\(element),…: \(small), then \(large)")
        #expect(count == 5_500 || element == "{\"a\":null}")
      }
    }

    @Test func `a deep value is read in proportion to its bytes`() throws {
      func text(_ count: Int) -> String {
        let deep = String(repeating: "[", count: 28) + "1" + String(repeating: "]", count: 28)
        return "[" + Array(repeating: deep, count: count).joined(separator: ",") + "]"
      }
      let (few, many) = (text(50), text(500))
      let small = try WorkCounter.nodesTouched { _ = try Node(json: few) }
      let large = try WorkCounter.nodesTouched { _ = try Node(json: many) }
      #expect(large <= 12 * small + 1_000, "\(small), then \(large)")
    }
  }
#endif
