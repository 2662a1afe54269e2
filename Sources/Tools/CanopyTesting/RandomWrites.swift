public import CanopyTree

/// A generator of random writes to few paths, with all kinds of values, so that many writes overlap.
public struct RandomWrites: Sendable {
  /// Keys that reveal errors in paths as text. Some sort between a key and its children; some begin or end with a
  /// character that forms a grapheme with the slash.
  public static let keys: [Key] = [
    "a", "a!", "a-b", "a0", "b c", "q\"u'o;te", "%", "🌳", "é", "e\u{301}", "1", "-7", "a_z",
    "-OaBcDeFgHiJkLmNoPqR", "k\u{600}", "\u{301}k",
  ]

  /// The most keys in a location.
  public var depthMax = 4
  /// The number of `keys` in use. With fewer keys more writes overlap.
  public var keysMax = RandomWrites.keys.count
  /// One of this many values is too big for one row of a checkpoint.
  public var bigOnceIn = 12

  /// Creates a generator with the defaults.
  public init() {}

  /// Returns a generator with random settings: few keys or many, short paths or long ones.
  public static func varied(_ random: inout SeededGenerator) -> RandomWrites {
    var writes = RandomWrites()
    writes.keysMax = random.pick([2, 3, 6, RandomWrites.keys.count])
    writes.depthMax = random.pick([2, 3, 4])
    writes.bigOnceIn = random.pick([2, 4, 12])
    return writes
  }

  /// Returns a write to one path or to several.
  public func next(_ random: inout SeededGenerator) -> Write {
    while true {
      let count = random.oneIn(3) ? Int.random(in: 2...4, using: &random) : 1
      let items = (0..<count).map { _ in item(&random) }
      if let write = try? Write(items) { return write }
    }
  }

  private func item(_ random: inout SeededGenerator) -> Write.Item {
    if random.oneIn(6) {
      let priority = random.oneIn(4) ? Node.absent : self.priority(&random)
      return .init(Location(path(&random), isPriority: true), WriteValue(priority))
    }
    return .init(path(&random), random.oneIn(3) ? .absent : value(&random, depth: 2))
  }

  private func path(_ random: inout SeededGenerator) -> Path {
    let isRoot = random.oneIn(40)
    let count = isRoot ? 0 : Int.random(in: 1...depthMax, using: &random)
    return (0..<count).reduce(.root) { path, _ in path.child(key(&random)) }
  }

  private func key(_ random: inout SeededGenerator) -> Key {
    random.pick(RandomWrites.keys.prefix(keysMax))
  }

  private func priority(_ random: inout SeededGenerator) -> Node {
    random.oneIn(2) ? Node(Int64.random(in: -3...3, using: &random)) : Node("p")
  }

  /// Returns a leaf or a branch, sometimes with a priority.
  public func value(_ random: inout SeededGenerator, depth: Int) -> Node {
    var node = leaf(&random)
    if random.oneIn(bigOnceIn) {
      node = big(&random)
    } else if depth > 0, random.oneIn(2) {
      let count = Int.random(in: 1...4, using: &random)
      node = Node(
        children: (0..<count).map { _ in (key(&random), value(&random, depth: depth - 1)) })
    }
    return random.oneIn(5) ? node.withPriority(priority(&random)) : node
  }

  private func big(_ random: inout SeededGenerator) -> Node {
    let text = String(repeating: "x", count: Int.random(in: 200...2000, using: &random))
    let keys = RandomWrites.keys.shuffled(using: &random).prefix(9)
    let node = Node(children: keys.map { ($0, Node(text)) })
    return random.oneIn(2) ? node : Node(children: [(key(&random), node), ("a", "small")])
  }

  private func leaf(_ random: inout SeededGenerator) -> Node {
    switch Int.random(in: 0..<7, using: &random) {
    case 0: Node(random.oneIn(2))
    case 1: Node(Int64.random(in: .min ... .max, using: &random))
    case 2: Node(Double.random(in: -1...1, using: &random)) ?? 0
    case 3: Node(random.pick([Int64.max, .min, 1 << 53 + 1, 0, -1]))
    case 4: Node("\u{0}\"\\/\n e\u{301} 🌳")
    case 5: Node("")
    default: Node("text \(random.next() % 100)")
    }
  }
}
