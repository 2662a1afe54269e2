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

/// The encoded nodes of a write, which a codec takes in their order.
struct EncodedNodes {
  private var left: ArraySlice<EncodedNode>

  init(_ nodes: [EncodedNode]) {
    left = nodes[...]
  }

  /// Calls `body` with the text of a node if the next text is that of this node. Returns nil if it is not. O(1), and
  /// O(bytes) for a string
  @inline(__always)
  mutating func withNext<R>(
    _ node: Node, _ body: (UnsafeRawBufferPointer) -> R
  ) -> R? {
    guard let next = left.first, next.node.isIdentical(to: node) else { return nil }
    left = left.dropFirst()
    return next.bytes.withUnsafeBytes(body)
  }
}

extension Write {
  /// Encodes the values, if together they have more bytes than the bound. So the writer need not encode them. Call it
  /// before the write is given to the engine, on a thread that may be held. O(bytes)
  public mutating func encodeValues(over bytesMax: Int) {
    var budget = bytesMax
    guard !assignments.allSatisfy({ $0.value.fits(budget: &budget) }) else { return }
    var encoded: [EncodedNode] = []
    for item in items where item.value.serverValues.isEmpty && !item.value.node.isAbsent {
      // The codec writes equal values next to each other once.
      let isKnown = encoded.suffix(AssignmentCodec.window).contains {
        $0.node.isIdentical(to: item.value.node)
      }
      if !isKnown, let node = EncodedNode(item.value.node) { encoded.append(node) }
    }
    encodedValues = encoded
  }
}
