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
  private var nodes: [UInt: EncodedNode] = [:]

  var count: Int { nodes.count }

  /// Adds the nodes of another write.
  mutating func add(_ others: EncodedNodes) {
    nodes.merge(others.nodes) { first, _ in first }
  }

  mutating func add(_ node: Node) {
    guard let identity = node.versionIdentity, nodes[identity] == nil else { return }
    nodes[identity] = EncodedNode(node)
  }

  /// Calls `body` with the text of a node. Returns nil if the text is not known. O(1), besides `body`
  func withText<R>(of node: Node, _ body: (UnsafeRawBufferPointer) -> R) -> R? {
    guard let identity = node.versionIdentity, let found = nodes[identity],
      found.node.isIdentical(to: node)
    else { return nil }
    return found.bytes.withUnsafeBytes(body)
  }
}

extension Node {
  /// The address of a version of a branch, with or without indexes and a priority, or of the bytes of a string; nil for
  /// small leaves. Nodes with the same address are equal. Valid as long as the node is referenced.
  fileprivate var versionIdentity: UInt? {
    switch storage {
    case .branch(let children): UInt(bitPattern: children.identity)
    case .packed(let packed): UInt(bitPattern: packed.identity)
    case .indexed(let box): UInt(bitPattern: box.children.identity)
    case .prioritized(let box): UInt(bitPattern: ObjectIdentifier(box))
    case .string(let text): text.address
    default: nil
    }
  }
}

extension String {
  /// The address of the bytes; nil for a string that has no memory of its own, because it is small.
  fileprivate var address: UInt? {
    // Up to 15 bytes stand in the string itself.
    guard utf8.count > 15 else { return nil }
    return utf8.withContiguousStorageIfAvailable { UInt(bitPattern: $0.baseAddress) }
  }
}

extension Write {
  /// Takes over the texts and the indexes of the values of another write, for one commit of both. Indexes of another plan
  /// are left out.
  public mutating func addPreparedValues(of other: Write) {
    if let encoded = other.encodedValues {
      if encodedValues == nil { encodedValues = encoded } else { encodedValues?.add(encoded) }
    }
    if let indexed = other.indexedValues {
      if indexedValues == nil { indexedValues = indexed } else { indexedValues?.add(indexed) }
    }
  }

  /// Whether large values have their texts or indexes already.
  public var isPrepared: Bool { encodedValues != nil || indexedValues != nil }

  /// Returns the bytes of the text of a value if it is known. O(1)
  public func textBytes(of value: Node) -> Int? {
    encodedValues?.withText(of: value) { $0.count }
  }

  /// Whether the values fit into the rest of a budget of bytes of JSON, which is reduced. O(budget)
  public func fits(budget: inout Int) -> Bool {
    assignments.allSatisfy { $0.value.fits(budget: &budget) }
  }

  /// Encodes the values, if together they have more bytes than the bound. So the writer need not encode them. Call it
  /// before the write is given to the engine, on a thread that may be held. O(bytes)
  public mutating func encodeValues(over bytesMax: Int) {
    var budget = bytesMax
    guard !assignments.allSatisfy({ $0.value.fits(budget: &budget) }) else { return }
    var encoded = EncodedNodes()
    for item in items where item.value.serverValues.isEmpty && !item.value.node.isAbsent {
      encoded.add(item.value.node)
    }
    encodedValues = encoded
  }
}
