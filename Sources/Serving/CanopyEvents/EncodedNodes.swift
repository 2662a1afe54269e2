package import CanopyTree
internal import DequeModule
package import NIOCore

/// The JSON text of branches that were sent, by the identity of their nodes.
///
/// Many requests get the same values: the posts of a list, a location that many clients read or begin to observe. The tree
/// holds small branches as text already. For large branches, such as posts with many stars, encoding is most of the cost of
/// a reply, so this object keeps their text. A node never changes, and this object holds it, so the identity of the node
/// identifies the text. A post with another star is another node. At the bound, the oldest texts are removed. A text that is
/// often asked for is then encoded once more.
///
/// One for each event loop. Call its methods on that loop only.
package final class EncodedNodes: Sendable {
  /// The numbers of requests for the text of a large branch.
  package struct Counts: Equatable {
    /// The number of requests whose text was encoded.
    package var made = 0
    /// The number of requests whose text was there already.
    package var found = 0
  }

  private struct TextKey: Hashable {
    let identity: ObjectIdentifier
    let style: JSONStyle
  }

  /// A text, the node that it belongs to, and the bytes of both.
  private struct Entry {
    let node: Node
    let text: ByteBuffer
    let bytes: Int
  }

  private final class State {
    var texts: [TextKey: Entry] = [:]
    /// The keys of `texts`, the oldest first.
    var order: Deque<TextKey> = []
    var bytes = 0
    var counts = Counts()
  }

  private let bytesMax: Int
  private let state: NIOLoopBoundBox<State>

  /// - Parameters:
  ///   - loop: the event loop.
  ///   - bytesMax: the most bytes of text and of its nodes to keep, as the nodes may have left the tree. A text of more
  ///     than a 64th of them is not kept, nor a node of more than an eighth.
  package init(loop: any EventLoop, bytesMax: Int = 16 * 1024 * 1024) {
    self.bytesMax = bytesMax
    state = .makeBoxSendingValue(State(), eventLoop: loop)
  }

  /// The numbers of requests so far.
  package var counts: Counts { state.value.counts }

  /// Appends a node.
  ///
  /// - Complexity: O(bytes of the text), as a copy if the text is there already.
  package func append(_ node: Node, style: JSONStyle, to output: inout JSONOutput) {
    guard !node.isPacked, let identity = node.identity else {
      return output.append(node, style: style)
    }
    _ = withText(of: node, TextKey(identity: identity, style: style), upTo: .max) {
      output.append($0)
    }
  }

  /// Appends the members of a branch in `plain` style, each after a comma.
  ///
  /// - Parameter bytesMax: the bytes after which encoding stops. A text that is there already may be longer.
  /// - Returns: whether all members were appended; if not, nothing was.
  package func append(
    membersOf node: Node, to output: inout JSONOutput, upTo bytesMax: Int
  ) -> Bool {
    guard !node.isPacked, let identity = node.identity else {
      output.append(membersOf: node)
      return true
    }
    return withText(of: node, TextKey(identity: identity, style: .plain), upTo: bytesMax) { text in
      // The text of an array has no keys.
      guard text.first == UInt8(ascii: "{") else { return output.append(membersOf: node) }
      output.append(UInt8(ascii: ","))
      output.append(UnsafeRawBufferPointer(rebasing: text.dropFirst().dropLast()))
    }
  }

  /// Appends parts of a reply.
  ///
  /// - Complexity: O(bytes of the text).
  package func append(_ parts: [LinePieces.Part], to output: inout JSONOutput) {
    for part in parts {
      switch part {
      case .text(let bytes): bytes.withUnsafeBytes { output.append($0) }
      case .node(let node, let style): append(node, style: style, to: &output)
      case .members(let members, _) where members.isEmpty: output.append("null")
      case .members(let members, let style):
        for (index, (key, node)) in members.enumerated() {
          output.append(UInt8(ascii: index == 0 ? "{" : ","))
          output.append(key: key)
          output.append(UInt8(ascii: ":"))
          append(node, style: style, to: &output)
        }
        output.append("}")
      case .rest, .puts:
        var pieces = LinePieces(bytes: ValueBytes(json: 0), parts: [part])
        while !pieces.isDone { pieces.write(to: &output, bytes: 64 * 1024) }
      }
    }
  }

  /// Calls `body` with the text of a branch.
  ///
  /// - Returns: false if the text would have to be encoded and has more than `bytesMax` bytes; then `body` is not called.
  private func withText(
    of node: Node, _ key: TextKey, upTo bytesMax: Int, _ body: (UnsafeRawBufferPointer) -> Void
  ) -> Bool {
    let state = state.value
    if let entry = state.texts[key] {
      state.counts.found += 1
      entry.text.withUnsafeReadableBytes(body)
      return true
    }
    state.counts.made += 1
    var text = JSONOutput(capacity: 512)
    guard text.append(node, style: key.style, upTo: bytesMax) else { return false }
    text.withBytes { bytes in
      body(bytes)
      keep(bytes, of: node, key, in: state)
    }
    return true
  }

  private func keep(
    _ text: UnsafeRawBufferPointer, of node: Node, _ key: TextKey, in state: State
  ) {
    guard text.count <= bytesMax / 64 else { return }
    let memory = node.heldBytes(atMost: bytesMax / 8)
    guard memory < bytesMax / 8 else { return }
    let bytes = text.count + memory
    while state.bytes + bytes > bytesMax, let oldest = state.order.popFirst() {
      state.bytes -= state.texts.removeValue(forKey: oldest)?.bytes ?? 0
    }
    state.bytes += bytes
    state.texts[key] = Entry(node: node, text: ByteBuffer(bytes: text), bytes: bytes)
    state.order.append(key)
    assert(state.texts.count == state.order.count && state.bytes <= bytesMax)
  }
}
