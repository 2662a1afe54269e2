/// A node with its text for the journal, which was read back and compared.
///
/// Encoding a large value takes longer than one write may hold the writer. So such texts are made on another thread,
/// before the write is decided, and then only copied (see `Write.encodeValues`). A text is used for the identical node
/// alone, so a value that is replaced meanwhile, or that the server derives, is encoded as usual.
struct EncodedNode: Sendable {
  let node: Node
  let bytes: [UInt8]

  /// Encodes a node. O(bytes)
  ///
  /// - Returns: nil if the text does not read back; then the writer finds that out as well, and refuses the write.
  init?(_ node: Node) {
    var output = JSONOutput(capacity: 64 * 1024)
    output.append(node, style: .export)
    guard output.withBytes({ AssignmentCodec.decodes($0, as: node) }) else { return nil }
    self.node = node
    bytes = output.bytes
  }
}

/// The encoded nodes of a write.
struct EncodedNodes: Sendable {
  /// The most nodes without an identity, such as strings, which are found one by one.
  static let leavesMax = 16

  private var branches: [ObjectIdentifier: EncodedNode] = [:]
  private var leaves: [EncodedNode] = []

  var count: Int { branches.count + leaves.count }

  mutating func add(_ encoded: EncodedNode) {
    if let identity = encoded.node.versionIdentity {
      branches[identity] = encoded
    } else if leaves.count < EncodedNodes.leavesMax {
      leaves.append(encoded)
    }
  }

  /// Calls `body` with the text of a node. Returns nil if the text is not known. O(1), and O(bytes) for a string.
  func withText<R>(of node: Node, _ body: (UnsafeRawBufferPointer) -> R) -> R? {
    let found =
      if let identity = node.versionIdentity {
        branches[identity]
      } else {
        leaves.first { $0.node.isIdentical(to: node) }
      }
    return found.map { $0.bytes.withUnsafeBytes(body) }
  }
}

extension Node {
  /// The identity of a version of a branch, with or without indexes and a priority; nil for a leaf without a priority.
  /// Nodes with the same identity are equal. Valid as long as the node is referenced.
  fileprivate var versionIdentity: ObjectIdentifier? {
    switch storage {
    case .branch(let children): children.identity
    case .packed(let packed): packed.identity
    case .indexed(let box): box.children.identity
    case .prioritized(let box): ObjectIdentifier(box)
    default: nil
    }
  }
}

extension Write {
  /// Encodes the values, if together they have more bytes than the bound. So the writer need not encode them. Call it
  /// before the write is given to the engine, on a thread that may be held. O(bytes)
  public mutating func encodeValues(over bytesMax: Int) {
    var budget = bytesMax
    guard !assignments.allSatisfy({ $0.value.fits(budget: &budget) }) else { return }
    var encoded = EncodedNodes()
    for item in items where item.value.serverValues.isEmpty && !item.value.node.isAbsent {
      if let node = EncodedNode(item.value.node) { encoded.add(node) }
    }
    encodedValues = encoded
  }
}
