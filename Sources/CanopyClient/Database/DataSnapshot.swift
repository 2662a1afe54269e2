internal import CanopyTree

/// What stood at a location at one moment. It never changes, and costs nothing to copy.
public final class DataSnapshot: Sendable {
  /// The location that this is of.
  public let ref: DatabaseReference
  let node: Node
  private let order: Order

  init(_ reference: DatabaseReference, _ node: Node, order: Order) {
    ref = reference
    self.node = node
    self.order = order
  }

  /// The last key of the location; empty for the root.
  public var key: String { ref.key ?? "" }

  /// The data: nil for nothing, `NSNumber` for bools and numbers, `String`, `[Any]` for a list whose keys
  /// are 0, 1, 2, …, and `[String: Any]` for anything else. Made anew at each use: O(size).
  ///
  /// These cast to `[String: AnyObject]`, `NSDictionary`, `[String: Bool]`, `Int`, `Double` and so on.
  public var value: Any? { AnyValue.value(of: node) }

  /// The data with the priorities, as `.value` and `.priority`.
  public func valueInExportFormat() -> Any? { AnyValue.value(of: node, export: true) }

  /// The priority: nil, an `NSNumber` or a `String`.
  public var priority: Any? { AnyValue.value(of: node.priority) }

  /// Whether there is anything.
  public func exists() -> Bool { !node.isAbsent }

  /// Whether there are children.
  public func hasChildren() -> Bool { node.isBranch }

  /// The number of children.
  public var childrenCount: UInt { UInt(node.childCount) }

  /// Whether there is anything at a path below.
  public func hasChild(_ childPathString: String) -> Bool {
    childSnapshot(forPath: childPathString).exists()
  }

  /// What stands at a path below; for a path that is none, nothing.
  public func childSnapshot(forPath childPathString: String) -> DataSnapshot {
    let path = try? Path(childPathString)
    return DataSnapshot(
      ref.child(childPathString), path.map { node.at($0) } ?? .absent, order: .priority)
  }

  /// The children, each a `DataSnapshot`, in the order of the query that this is of.
  ///
  /// As in the original, the elements have to be cast; `childSnapshots` are the same without that.
  public var children: NSEnumerator { SnapshotEnumerator(childSnapshots) }

  /// The children in the order of the query that this is of. Canopy's own addition. O(n log n) unless the
  /// order is that of the keys.
  public var childSnapshots: [DataSnapshot] {
    let query = (try? Query(order: order)) ?? .all
    return query.children(of: node).map { key, node in
      DataSnapshot(ref.child(key), node, order: .priority)
    }
  }

  /// The data as a value of a `Decodable` type.
  ///
  /// Numbers become any number type that holds them; a list whose keys are 0, 1, 2, … an array. What is
  /// not there is nil, an empty array or an empty dictionary in what is decoded.
  ///
  /// - Throws: `DecodingError`.
  public func data<T: Decodable>(as type: T.Type) throws -> T {
    try NodeDecoder.decode(type, from: node)
  }
}

extension DataSnapshot: CustomStringConvertible {
  /// The key and the data.
  public var description: String { "Snap (\(key)) \(node.json())" }
}

/// The children of a snapshot, as the original hands them out.
private final class SnapshotEnumerator: NSEnumerator {
  private var rest: ArraySlice<DataSnapshot>

  init(_ snapshots: [DataSnapshot]) {
    rest = snapshots[...]
  }

  override func nextObject() -> Any? { rest.popFirst() }
}
