internal import CanopyTree

/// The saved data of queries that are not listened to now, by query and by location.
struct SavedQueries: Sendable {
  private var bySpec: [QuerySpec: SavedState.SavedQuery] = [:]
  private var specsByPath = PathTrie<Set<QuerySpec>>()

  /// Creates the table of saved data.
  init(_ saved: [QuerySpec: SavedState.SavedQuery] = [:]) {
    for (spec, query) in saved { self[spec] = query }
  }

  var isEmpty: Bool { bySpec.isEmpty }

  /// The saved data of a query; nil if there is none.
  subscript(spec: QuerySpec) -> SavedState.SavedQuery? {
    get { bySpec[spec] }
    set {
      let isNew = newValue != nil && bySpec[spec] == nil
      let isGone = newValue == nil && bySpec[spec] != nil
      bySpec[spec] = newValue
      guard isNew || isGone else { return }
      specsByPath.modify(at: spec.path) { specs in
        if isNew {
          if specs == nil { specs = [] }
          specs?.insert(spec)
        } else {
          specs?.remove(spec)
          if specs?.isEmpty == true { specs = nil }
        }
      }
    }
  }

  /// Returns the query whose data contains a whole location: the one with the newest data, if several
  /// do.
  ///
  /// - Complexity: O(depth).
  func newest(containing path: Path) -> QuerySpec? {
    guard !isEmpty else { return nil }
    var best: (spec: QuerySpec, sequence: Int64)?
    specsByPath.forEach(along: path) { depth, _ in
      let spec = QuerySpec(path.prefix(depth))
      if let found = bySpec[spec], best.map({ $0.sequence < found.sequence }) ?? true {
        best = (spec, found.sequence)
      }
      return true
    }
    return best?.spec
  }

  /// Returns the queries of whole locations below a path.
  func wholes(below path: Path) -> [QuerySpec] {
    var found: [QuerySpec] = []
    for child in specsByPath.subtrie(at: path)?.children.values ?? [:].values {
      child.forEach { specs in found += specs.filter(\.query.isUnbounded) }
    }
    return found
  }

  /// Returns the children of a location that are saved as wholes: each by itself, or in the result of
  /// a bounded query. Of a child that is saved several times, the newest data.
  ///
  /// - Complexity: O(children with saved data).
  func children(of path: Path) -> [(key: Key, node: Node)] {
    guard let trie = specsByPath.subtrie(at: path) else { return [] }
    var newest: [Key: SavedState.SavedQuery] = [:]
    func add(_ key: Key, _ node: Node, _ sequence: Int64) {
      if newest[key].map({ $0.sequence <= sequence }) ?? true {
        newest[key] = SavedState.SavedQuery(node: node, sequence: sequence)
      }
    }
    for spec in trie.value ?? [] {
      guard let query = bySpec[spec] else { continue }
      query.node.forEachChild { key, node in
        add(key, node, query.sequence)
        return true
      }
    }
    for key in trie.children.keys {
      guard let query = bySpec[QuerySpec(path.child(key))] else { continue }
      add(key, query.node, query.sequence)
    }
    return newest.sorted { $0.key < $1.key }.map { ($0.key, $0.value.node) }
  }
}
