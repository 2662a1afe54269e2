internal import CanopyTree

/// The data that a transaction changes: at first the current value, or `NSNull` if none is known;
/// finally the new value.
///
/// Valid only during the call of the transaction's function, on its thread.
public final class MutableData {
  private final class Root {
    var node: Node
    var serverValues: [LocatedServerValue] = []
    var problem: DatabaseError?

    init(_ node: Node) {
      self.node = node
    }
  }

  /// The last key of the location; nil for the root.
  public let key: String?
  private let root: Root
  private let path: Path

  convenience init(_ key: String?, _ node: Node) {
    self.init(key, Root(node), .root)
  }

  private init(_ key: String?, _ root: Root, _ path: Path) {
    self.key = key
    self.root = root
    self.path = path
  }

  private var node: Node { root.node.at(path) }

  /// The data, in the form of `DataSnapshot.value`. Setting it replaces all of it; an invalid value
  /// makes the transaction fail with an error.
  public var value: Any? {
    get { AnyValue.value(of: node) }
    set { put { () throws(DatabaseError) in try AnyValue.write(newValue) } }
  }

  /// The priority: an `NSNumber` or a `String`; `NSNull` if there is none. Setting it leaves the data
  /// unchanged.
  public var priority: Any? {
    get { AnyValue.value(of: node.priority) }
    set {
      let present = written
      put { () throws(DatabaseError) in try AnyValue.write(present, priority: newValue) }
    }
  }

  /// Whether there are children.
  public func hasChildren() -> Bool { node.isBranch }

  /// Whether there is data at a path below.
  public func hasChild(atPath path: String) -> Bool {
    (try? Path(path)).map { !node.at($0).isAbsent } ?? false
  }

  /// The number of children.
  public var childrenCount: UInt { UInt(node.childCount) }

  /// The children, each a `MutableData`.
  public var children: NSEnumerator {
    var children: [MutableData] = []
    for (key, _) in Query.all.children(of: node) {
      children.append(MutableData(key.text, root, path.child(key)))
    }
    return NSArray(array: children).objectEnumerator()
  }

  /// Returns the data at a path below, which can be changed too.
  public func childData(byAppendingPath text: String) -> MutableData {
    guard let below = try? Path(text) else {
      root.problem = DatabaseError(.invalidPath, "the path is not valid: \(text.prefix(200))")
      return MutableData(nil, Root(.absent), .root)
    }
    return MutableData(below.last?.text ?? key, root, path.appending(below))
  }

  private func put(_ make: () throws(DatabaseError) -> WriteValue) {
    do throws(DatabaseError) {
      let value = try make()
      var tree = Tree(root: root.node)
      tree.apply([Assignment(path, value.node)])
      root.node = tree.root
      root.serverValues.removeAll {
        $0.path.hasPrefix(path) || !$0.isPriority && path.hasPrefix($0.path)
      }
      for placed in value.serverValues {
        root.serverValues.append(
          LocatedServerValue(
            path: path.appending(placed.path), isPriority: placed.isPriority, value: placed.value))
      }
    } catch {
      root.problem = error
    }
  }

  /// The data with the server values that were set.
  private var written: WriteValue {
    var serverValues: [LocatedServerValue] = []
    for placed in root.serverValues {
      guard let below = placed.path.relative(to: path) else { continue }
      serverValues.append(
        LocatedServerValue(path: below, isPriority: placed.isPriority, value: placed.value))
    }
    return WriteValue(node, serverValues: serverValues)
  }

  /// The value to write, or the error of an invalid value.
  var result: Result<WriteValue, DatabaseError> {
    if let problem = root.problem { return .failure(problem) }
    return .success(written)
  }
}

/// The decision of a transaction's function.
public struct TransactionResult {
  /// The data to write; nil to abort.
  private let data: MutableData?

  /// Returns the decision to write this data.
  public static func success(withValue value: MutableData) -> TransactionResult {
    TransactionResult(data: value)
  }

  /// Returns the decision to write nothing.
  public static func abort() -> TransactionResult {
    TransactionResult(data: nil)
  }

  /// The value to write, or nil; and the error of an invalid value.
  var outcome: (value: WriteValue?, problem: DatabaseError?) {
    switch data?.result {
    case nil: (nil, nil)
    case .success(let value)?: (value, nil)
    case .failure(let error)?: (nil, error)
    }
  }
}
