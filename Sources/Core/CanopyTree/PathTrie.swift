/// Values at paths, found at a path, above it and below it.
///
///     var listeners = PathTrie<[Int]>()
///     listeners.modify(at: path) { $0 = ($0 ?? []) + [7] }
///     listeners.forEach(overlapping: path) { ids in … }
///
/// A level for each key of a path; paths with the same prefix share its levels. A value type. No empty
/// level exists: removing the last value at and below a path removes its levels.
///
/// The methods can be inlined, so that other modules compile them for their values. Otherwise each step would look up
/// the type of the values at run time.
///
/// - Complexity: each operation at a path costs O(depth), whatever else the trie holds; a visit of the
///   values below a path also costs their number.
public struct PathTrie<Value> {
  /// The value at this level; nil if there is none.
  public var value: Value?
  /// The levels below, by key; none of them is empty.
  @usableFromInline var levels: [Key: PathTrie] = [:]
  /// The tries below, by key; none of them is empty.
  @inlinable public var children: [Key: PathTrie] { levels }

  /// Creates a trie with a value at its root, or an empty one.
  @inlinable public init(_ value: Value? = nil) {
    self.value = value
  }

  /// Whether there is no value at this level or below.
  @inlinable public var isEmpty: Bool { value == nil && levels.isEmpty }

  /// Returns the value at a path; nil if there is none.
  @inlinable public subscript(path: Path) -> Value? {
    subtrie(at: path)?.value
  }

  /// Returns the values at and below a path, as a trie; nil if there are none.
  @inlinable public func subtrie(at path: Path) -> PathTrie? {
    var trie = self
    for key in path.keys {
      guard let child = trie.levels[key] else { return nil }
      trie = child
    }
    return trie
  }

  /// Changes the value at a path in place; nil removes it.
  @discardableResult
  @inlinable
  public mutating func modify<Result>(
    at path: Path, _ body: (inout Value?) -> Result
  ) -> Result {
    modifySubtrie(at: path.keys[...]) { body(&$0.value) }
  }

  /// Changes the values at and below a path in place. An empty trie removes them all.
  @discardableResult
  @inlinable
  public mutating func modifySubtrie<Result>(
    at path: Path, _ body: (inout PathTrie) -> Result
  ) -> Result {
    modifySubtrie(at: path.keys[...], body)
  }

  @inlinable mutating func modifySubtrie<Result>(
    at keys: ArraySlice<Key>, _ body: (inout PathTrie) -> Result
  ) -> Result {
    guard let key = keys.first else { return body(&self) }
    let result = levels[key, default: PathTrie()].modifySubtrie(at: keys.dropFirst(), body)
    if let child = levels[key], child.isEmpty { levels[key] = nil }
    return result
  }

  /// Visits the values at a path and above it, the outermost first, until `body` returns false.
  ///
  /// - Parameter body: receives the number of keys that lead to the value, and the value.
  /// - Returns: whether all were visited.
  @discardableResult
  @inlinable
  public func forEach(along path: Path, _ body: (_ depth: Int, Value) -> Bool) -> Bool {
    var trie = self
    if let value, !body(0, value) { return false }
    for (index, key) in path.keys.enumerated() {
      guard let child = trie.levels[key] else { return true }
      trie = child
      if let value = trie.value, !body(index + 1, value) { return false }
    }
    return true
  }

  /// Visits the values above a path, at it and below it; those above first, outermost first.
  @inlinable public func forEach(overlapping path: Path, _ body: (Value) -> Void) {
    _ = visit(overlapping: path, from: 0) { value in
      body(value)
      return true
    }
  }

  /// Visits the values above some paths, at them and below them: each once if the paths are sorted, at least once
  /// otherwise.
  ///
  /// - Complexity: O(keys of the paths + values visited).
  @inlinable public func forEach(overlapping paths: some Sequence<Path>, _ body: (Value) -> Void) {
    visit(overlapping: paths) { value in
      body(value)
      return true
    }
  }

  /// Visits the values above some paths, at them and below them, until `body` returns false: each once if the paths are
  /// sorted, at least once otherwise.
  ///
  /// - Returns: whether all were visited.
  /// - Complexity: O(keys of the paths + values visited).
  @discardableResult
  @inlinable public func visit(
    overlapping paths: some Sequence<Path>, _ body: (Value) -> Bool
  ) -> Bool {
    var last: Path?
    for path in paths {
      var depth = 0
      if let last {
        // The levels of the shared keys were visited, and all levels at and below the last path.
        let shared = last.sharedCount(with: path)
        if shared == last.count { continue }
        depth = shared + 1
      }
      guard visit(overlapping: path, from: depth, body) else { return false }
      last = path
    }
    return true
  }

  /// Visits the values above a path from a depth on, and those at the path and below it, until `body` returns false.
  @inlinable func visit(overlapping path: Path, from depth: Int, _ body: (Value) -> Bool) -> Bool {
    var trie = self
    for (index, key) in path.keys.enumerated() {
      if index >= depth, let value = trie.value, !body(value) { return false }
      guard let child = trie.levels[key] else { return true }
      trie = child
    }
    return trie.visit(body)
  }

  /// Visits the values above a path, at it and below it, until `body` returns false; those above first,
  /// outermost first.
  ///
  /// - Parameter body: receives the next key of the path for a value above it, nil for the others; and
  ///   the value.
  /// - Returns: whether all were visited.
  @discardableResult
  @inlinable
  public func visit(
    overlapping path: Path, _ body: (_ next: Key?, Value) -> Bool
  ) -> Bool {
    var trie = self
    for key in path.keys {
      if let value = trie.value, !body(key, value) { return false }
      guard let child = trie.levels[key] else { return true }
      trie = child
    }
    return trie.visit { body(nil, $0) }
  }

  @inlinable func visit(_ body: (Value) -> Bool) -> Bool {
    if let value, !body(value) { return false }
    return levels.values.allSatisfy { $0.visit(body) }
  }

  /// Visits all values, in no particular order.
  @inlinable public func forEach(_ body: (Value) -> Void) {
    if let value { body(value) }
    for child in levels.values { child.forEach(body) }
  }

  /// Visits all values with their paths, ordered by path.
  @inlinable public func forEachInOrder(_ body: (Path, Value) -> Void) {
    forEachInOrder(below: .root, body)
  }

  @inlinable func forEachInOrder(below path: Path, _ body: (Path, Value) -> Void) {
    if let value { body(path, value) }
    for (key, child) in levels.sorted(by: { $0.key < $1.key }) {
      child.forEachInOrder(below: path.child(key), body)
    }
  }
}

extension PathTrie: Sendable where Value: Sendable {}
