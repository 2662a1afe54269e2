#if CANOPY_COUNT_WORK
  import CanopyEngine
  import CanopyTesting
  import CanopyTree
  import CanopyWire
  import Testing

  @testable import CanopyEvents
  @testable import CanopyLineServer
  @testable import CanopySession

  /// The size of a large result is found by a walk that stops at the first child that does not fit.
  @Suite(.timeLimit(.minutes(20))) struct SizeWalkTests {
    /// Ten thousand children: few enough to be read by their number, too large by their sizes.
    private static let node: Node = {
      let text = Node(String(repeating: "x", count: 1000))
      return Node(children: (0..<10_000).map { (Key(index: $0), text) })
    }()

    private static let bytesMax = 128 * 1024
    /// The pages of the children that fit, the ways down to the bounds of the range, and one page more.
    private static let pagesMax = 80

    private func queries() throws -> [Query] {
      [
        try Query(order: .key, lower: .init(.absent, key: "0")),
        try Query(lower: .init(.absent)),
        try Query(order: .key, limit: .first(10_000)),
        try Query(order: .key, limit: .last(9_999)),
      ]
    }

    @Test func `a large event`() throws {
      for query in try queries() {
        let nodes = WorkCounter.nodesTouched {
          #expect(!ListenEvent.value(Self.node).fits(query, bytes: Self.bytesMax))
        }
        #expect(nodes <= Self.pagesMax, "\(query)")
        #expect(ListenEvent.value(Self.node).fits(query, bytes: 11_000_000))
      }
    }

    private func read(_ line: String) throws -> ReadRequest {
      let request = try Array(line.utf8).withUnsafeBytes {
        try Request(line: $0, limits: Limits())
      }
      guard case .read(let read) = request else {
        Issue.record("\(line) is no read")
        return .ping
      }
      return read
    }

    @Test func `a large reply`() async throws {
      let parts = try await LineParts()
      let root = Node(children: [(Key("big"), Self.node)])
      for options in [
        #"{"orderBy":"$key","startAt":"0"}"#, #"{"startAt":null}"#,
        #"{"orderBy":"$key","limitToFirst":10000}"#, #"{"orderBy":"$key","limitToLast":9999}"#,
        #"{"shallow":true}"#,
      ] {
        let request = try read("GET /big \(options)")
        let nodes = WorkCounter.nodesTouched {
          #expect(parts.operations.read(request, as: .administrator, in: root) == nil)
        }
        #expect(nodes <= Self.pagesMax, "\(options)")
      }
    }

    @Test func `a read by priority is long if it selects many children and may pass others`()
      async throws
    {
      let parts = try await LineParts()
      func isLong(limit: Int, _ children: [Node]) throws -> Bool {
        let root = Node(children: children.enumerated().map { (Key(index: Int32($0)), $1) })
        let request = try read(#"GET / {"orderBy":"$priority","limitToFirst":\#(limit)}"#)
        return parts.operations.read(request, as: .administrator, in: root) == nil
      }
      let (without, with) = (Node(1), Node(1).withPriority(2))
      let limit = Operations.passingReadMax
      func mixed(_ count: Int) -> [Node] { (0..<count).map { $0 % 34 == 0 ? without : with } }
      #expect(try isLong(limit: limit + 1, mixed(300)))
      #expect(try !isLong(limit: limit, mixed(300)))
      #expect(try !isLong(limit: limit + 1, mixed(256)))
      for same in [without, with] {
        #expect(try !isLong(limit: 300, Array(repeating: same, count: 300)))
      }
    }

    @Test func `a result that fits is whole, to the last byte`() async throws {
      let parts = try await LineParts()
      let text = Node(String(repeating: "y", count: 1000))
      let few = Node(children: (0..<100).map { (Key(index: $0), text) })
      let request = try read(#"GET / {"orderBy":"$key","limitToLast":99}"#)
      guard
        case .members(let members, _, let bytes)? = parts.operations.read(
          request, as: .administrator, in: few)
      else {
        Issue.record("the reply is not whole")
        return
      }
      let keys: [Key] = (1..<100).map { Key(index: $0) }
      #expect(members.map(\.key) == keys)
      // `"key":"text",`
      let digits = 9 + 2 * 90
      #expect(bytes.json == digits + 99 * (4 + 1002))
      let query = try Query(order: .key, limit: .last(99))
      #expect(ListenEvent.value(few).fits(query, bytes: bytes.json + 1))
      #expect(!ListenEvent.value(few).fits(query, bytes: bytes.json - 1))
    }
  }
#endif
