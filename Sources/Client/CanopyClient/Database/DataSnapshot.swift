internal import CanopyTree

/// The data of a location at one moment. Immutable, and cheap to copy.
public final class DataSnapshot: Sendable {
  /// The location of the data.
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

  /// The data: `NSNull` if there is none, `NSNumber` for bools and numbers, `String`, `[Any]` for a
  /// list with the keys 0, 1, 2, …, and `[String: Any]` for any other branch. Never nil. Created at
  /// each access: O(size).
  ///
  /// The values cast to `[String: AnyObject]`, `NSDictionary`, `[String: Bool]`, `Int`, `Double`
  /// and so on.
  public var value: Any? { AnyValue.value(of: node) }

  /// Returns the data with priorities, as `.value` and `.priority`; `NSNull` if there is none.
  public func valueInExportFormat() -> Any? { AnyValue.value(of: node, export: true) }

  /// The priority: an `NSNumber` or a `String`; `NSNull` if there is none.
  public var priority: (any Sendable)? { AnyValue.priority(of: node) }

  /// Whether there is data.
  public func exists() -> Bool { !node.isAbsent }

  /// Whether there are children.
  public func hasChildren() -> Bool { node.isBranch }

  /// The number of children.
  public var childrenCount: UInt { UInt(node.childCount) }

  /// Whether there is data at a path below.
  public func hasChild(_ childPathString: String) -> Bool {
    childSnapshot(forPath: childPathString).exists()
  }

  /// Returns the snapshot of a path below; an empty one for an invalid path.
  public func childSnapshot(forPath childPathString: String) -> DataSnapshot {
    let path = try? Path(childPathString)
    return DataSnapshot(
      ref.child(childPathString), path.map { node.at($0) } ?? .absent, order: .priority)
  }

  /// The children, each a `DataSnapshot`, in the order of the query.
  ///
  /// As in Firebase, the elements have to be cast; `childSnapshots` needs no cast.
  public var children: NSEnumerator { SnapshotEnumerator(childSnapshots) }

  /// The children in the order of the query. Canopy's own addition.
  ///
  /// - Complexity: O(n) in key order, else O(n log n).
  public var childSnapshots: [DataSnapshot] {
    let query = (try? Query(order: order)) ?? .all
    return query.children(of: node).map { key, node in
      DataSnapshot(ref.child(key), node, order: .priority)
    }
  }

  /// Returns the data as a `Decodable` type.
  ///
  /// Numbers decode as any number type that can hold them, and a list with the keys 0, 1, 2, … as
  /// an array. Absent data decodes as nil, an empty array or an empty dictionary; for another type with
  /// members it is an error.
  ///
  /// - Throws: `DecodingError`.
  public func data<T: Decodable>(as type: T.Type) throws -> T {
    try NodeDecoder.decode(type, from: node, needsData: true)
  }
}

extension DataSnapshot: CustomStringConvertible {
  /// The key and the data.
  public var description: String { "Snap (\(key)) \(node.json())" }
}

/// An enumerator of the children, as Firebase returns them.
private final class SnapshotEnumerator: NSEnumerator {
  private var rest: ArraySlice<DataSnapshot>

  init(_ snapshots: [DataSnapshot]) {
    rest = snapshots[...]
  }

  override func nextObject() -> Any? { rest.popFirst() }
}
