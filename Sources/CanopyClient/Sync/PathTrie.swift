internal import CanopyTree

/// Values at paths, found by path, by what is above a path and by what is below it.
///
/// Each step costs O(depth), whatever else is kept; what is below a path costs its number besides.
struct PathTrie<Value: Sendable>: Sendable {
  /// What stands here.
  private(set) var value: Value?
  private(set) var children: [Key: PathTrie] = [:]

  var isEmpty: Bool { value == nil && children.isEmpty }

  /// What stands at a path.
  subscript(path: Path) -> Value? {
    below(path)?.value
  }

  /// What stands at and below a path.
  func below(_ path: Path) -> PathTrie? {
    var trie = self
    for key in path.keys {
      guard let child = trie.children[key] else { return nil }
      trie = child
    }
    return trie
  }

  /// Changes what stands at a path, in place; nil removes it.
  mutating func modify<Result>(_ path: Path, _ body: (inout Value?) -> Result) -> Result {
    modify(path.keys[...], body)
  }

  private mutating func modify<Result>(
    _ keys: ArraySlice<Key>, _ body: (inout Value?) -> Result
  ) -> Result {
    guard let key = keys.first else { return body(&value) }
    let result = children[key, default: PathTrie()].modify(keys.dropFirst(), body)
    if let child = children[key], child.isEmpty { children[key] = nil }
    return result
  }

  /// Visits what stands at a path and above it, the outermost first, until `body` returns false.
  func forEach(onTheWayTo path: Path, _ body: (_ depth: Int, Value) -> Bool) {
    var trie = self
    if let value, !body(0, value) { return }
    for (index, key) in path.keys.enumerated() {
      guard let child = trie.children[key] else { return }
      trie = child
      if let value = trie.value, !body(index + 1, value) { return }
    }
  }

  /// Visits everything here and below, in no particular order.
  func forEach(_ body: (Value) -> Void) {
    if let value { body(value) }
    for child in children.values { child.forEach(body) }
  }
}
