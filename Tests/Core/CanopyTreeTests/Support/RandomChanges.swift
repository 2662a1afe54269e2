import CanopyTesting
import CanopyTree

extension SeededRandom {
  /// Returns changes, none at or below another, as in an update.
  mutating func changes(_ count: Int, height: Int = 2, priorities: Bool = true)
    -> [NaiveTree.Change]
  {
    var result: [NaiveTree.Change] = []
    for _ in 0..<count {
      let path = self.path(oneIn(20) ? 0...0 : 1...4)
      let change: NaiveTree.Change
      if priorities, oneIn(5) {
        change = .priority(path, oneIn(4) ? nil : priority())
      } else {
        let value =
          oneIn(3) ? NaiveTree() : tree(height: below(height + 1), priorities: priorities)
        change = .set(path, value)
      }
      if !result.contains(where: { $0.overlaps(change) }) { result.append(change) }
    }
    return result
  }
}

extension NaiveTree.Change {
  func overlaps(_ other: NaiveTree.Change) -> Bool {
    switch (self, other) {
    case (.set(let a, _), .set(let b, _)): a.starts(with: b) || b.starts(with: a)
    case (.set(let a, _), .priority(let b, _)), (.priority(let b, _), .set(let a, _)):
      b.starts(with: a)
    case (.priority(let a, _), .priority(let b, _)): a == b
    }
  }

  var item: Write.Item {
    switch self {
    case .set(let path, let value): Write.Item(Path(path), value.node)
    case .priority(let path, let priority):
      Write.Item(
        Location(Path(path), isPriority: true), WriteValue(priority?.node ?? .absent))
    }
  }
}

extension Tree {
  /// Applies the changes as one write, and returns the assignments to journal.
  @discardableResult
  mutating func carryOut(_ changes: [NaiveTree.Change]) throws -> [Assignment] {
    apply(try Write(changes.map(\.item)).resolved(in: root, at: 0))
  }
}
