import Testing

@testable import CanopyTree

/// The bound on the paths of the leaves of one write.
struct LeafPathTests {
  /// A path of so many bytes, with the slashes before its keys.
  private static func path(bytes: Int) throws -> Path {
    var keys: [Key] = []
    var rest = bytes
    while rest > 0 {
      let length = min(700, rest - 1)
      keys.append(try Key(String(repeating: "k", count: length)))
      rest -= length + 1
    }
    return Path(keys: keys)
  }

  /// A branch of `count` leaves with keys of four digits.
  private static func leaves(_ count: Int) -> Node {
    Node(children: (0..<Int32(count)).map { (Key(index: 1_000 + $0), true) })
  }

  private static func isAllowed(_ path: Path, _ value: Node) throws -> Bool {
    let write = try Write(setting: [Assignment(path, value)])
    do throws(TreeError) { try write.checkLeafPaths() } catch {
      guard case .tooLarge = error else { throw error }
      return false
    }
    return true
  }

  @Test func `a path may have 4,096 bytes`() throws {
    let most = Limits.leafPathBytesMax
    #expect(try Self.isAllowed(try Self.path(bytes: most), 1))
    #expect(try !Self.isAllowed(try Self.path(bytes: most + 1), 1))
    let child = try Self.path(bytes: most - 5)
    #expect(try Self.isAllowed(child, Node(children: [("abcd", 1)])))
    #expect(try !Self.isAllowed(child, Node(children: [("abcde", 1)])))
    // Levels within the value count as much as the path.
    let inner = try Key(String(repeating: "k", count: 700))
    let value = Node(children: [(inner, Node(children: [(inner, true)]))])
    #expect(try Self.isAllowed(try Self.path(bytes: most - 1_402), value))
    #expect(try !Self.isAllowed(try Self.path(bytes: most - 1_401), value))
  }

  @Test func `the paths of all leaves may have a mebibyte`() throws {
    // Each leaf has a path of 3,500 + 5 bytes. 64 times the data are less: 9 bytes for each leaf, and one path.
    let path = try Self.path(bytes: 3_500)
    let most = Limits.updatePathBytesMax / 3_505
    #expect(Limits.leafPathBytesPerByte * (3_500 + 9 * most) < Limits.updatePathBytesMax)
    #expect(try Self.isAllowed(path, Self.leaves(most)))
    #expect(try !Self.isAllowed(path, Self.leaves(most + 1)))
  }

  @Test func `beyond a mebibyte, the paths may have a multiple of the data`() throws {
    #expect(try Self.isAllowed(try Self.path(bytes: 105), Self.leaves(8_000)))
    #expect(try !Self.isAllowed(try Self.path(bytes: 1_000), Self.leaves(8_000)))
    let texts = Node(
      children: (0..<Int32(2_000)).map {
        (Key(index: $0), Node(String(repeating: "x", count: 100)))
      })
    #expect(try Self.isAllowed(try Self.path(bytes: 4_000), texts))
  }

  @Test func `an update is checked as a whole`() throws {
    let path = try Self.path(bytes: 500)
    let value = Node(children: (0..<Int32(20)).map { (Key(index: $0), true) })
    func write(_ count: Int) throws -> Write {
      try Write(setting: (0..<Int32(count)).map { Assignment(path.child(Key(index: $0)), value) })
    }
    try write(50).checkLeafPaths()
    #expect(throws: TreeError.self) { try write(2_000).checkLeafPaths() }
  }

  @Test func `server values count as leaves`() throws {
    func isAllowed(_ path: Path, _ places: [Path], isPriority: Bool = false) throws -> Bool {
      let values = places.map {
        LocatedServerValue(path: $0, isPriority: isPriority, value: .timestamp)
      }
      let write = try Write.set(Location(path), WriteValue(.absent, serverValues: values))
      do throws(TreeError) { try write.checkLeafPaths() } catch {
        guard case .tooLarge = error else { throw error }
        return false
      }
      return true
    }
    let most = Limits.leafPathBytesMax
    for isPriority in [false, true] {
      let root = [Path.root]
      #expect(try isAllowed(try Self.path(bytes: most), root, isPriority: isPriority))
      #expect(try !isAllowed(try Self.path(bytes: most + 1), root, isPriority: isPriority))
      let outer = try Self.path(bytes: most - 700)
      let inner = [try Self.path(bytes: 700)]
      #expect(try isAllowed(outer, inner, isPriority: isPriority))
      let longer = try Self.path(bytes: most - 699)
      #expect(try !isAllowed(longer, inner, isPriority: isPriority))
    }
    // Each path has 3,500 + 5 bytes, and 64 times the data are less: 23 bytes for each server value, and one path.
    let path = try Self.path(bytes: 3_500)
    let count = Limits.updatePathBytesMax / 3_505
    let places = (0..<Int32(count + 1)).map { Path(keys: [Key(index: 1_000 + $0)]) }
    #expect(try isAllowed(path, Array(places.dropLast())))
    #expect(try !isAllowed(path, places))
  }

  @Test func `values with server values may have half a mebibyte of JSON together`() throws {
    func node(textBytes: Int) -> Node {
      Node(children: [("t", Node(String(repeating: "x", count: textBytes)))])
    }
    func isAllowed(textBytes: Int, _ values: [LocatedServerValue]) throws -> Bool {
      let value = WriteValue(node(textBytes: textBytes), serverValues: values)
      let small = Write.Item(Location("b"), WriteValue(.absent, serverValues: values))
      // A value without server values does not count.
      let other = Write.Item(Location("c"), WriteValue(node(textBytes: 600_000)))
      let write = try Write([Write.Item(Location("a"), value), small, other])
      do throws(TreeError) { try write.checkServerValues() } catch {
        guard case .tooLarge = error else { throw error }
        return false
      }
      return true
    }
    let bytesMax = Limits.serverValueBytesMax
    let most = try #require(
      (bytesMax - 64...bytesMax).last {
        var budget = bytesMax
        return node(textBytes: $0).fits(budget: &budget) && Node.absent.fits(budget: &budget)
      })
    let value = LocatedServerValue(path: Path("at"), isPriority: false, value: .timestamp)
    #expect(try isAllowed(textBytes: most, [value]))
    #expect(try !isAllowed(textBytes: most + 1, [value]))
    #expect(try isAllowed(textBytes: most + 1, []))
    let half = WriteValue(node(textBytes: bytesMax / 2), serverValues: [value])
    let halves = try ["a", "b"].map { Write.Item(try Location($0), half) }
    try Write([halves[0]]).checkServerValues()
    #expect(throws: TreeError.self) { try Write(halves).checkServerValues() }
  }

  @Test func `a removal is allowed at any path`() throws {
    #expect(try Self.isAllowed(try Self.path(bytes: 20_000), .absent))
  }
}
