package import CanopyTree
internal import DequeModule
package import NIOCore

/// The JSON text of branches that were sent, by the identity of their nodes.
///
/// Many requests get the same values: the posts of a list, a location that many clients read or begin to observe. Small
/// branches are stored as text. For large ones, such as posts with many stars, encoding is most of the cost of a reply,
/// so this keeps their text. A node never changes, and this object holds it, so the identity of the node identifies the
/// text. A post with another star is another node. At the bound, the oldest texts are removed; those in demand are soon
/// back.
///
/// One for each event loop. Call its methods on that loop only.
package final class EncodedNodes: Sendable {
  /// The requests for the text of a large branch.
  package struct Counts: Equatable {
    /// The number of texts that were encoded.
    package var made = 0
    /// The number of texts that were encoded before.
    package var found = 0
  }

  private struct Form: Hashable {
    let identity: ObjectIdentifier
    let style: JSONStyle
  }

  private final class State {
    var texts: [Form: (node: Node, text: ByteBuffer)] = [:]
    /// The keys of `texts`, the oldest first.
    var order: Deque<Form> = []
    var bytes = 0
    var counts = Counts()
  }

  private let bytesMax: Int
  private let state: NIOLoopBoundBox<State>

  /// - Parameters:
  ///   - loop: the event loop.
  ///   - bytesMax: the most bytes of text to keep. A text of more than a 64th of them is not kept.
  package init(loop: any EventLoop, bytesMax: Int = 8 * 1024 * 1024) {
    self.bytesMax = bytesMax
    state = .makeBoxSendingValue(State(), eventLoop: loop)
  }

  /// The requests for texts so far.
  package var counts: Counts { state.value.counts }

  /// Appends a node. O(size); for a text that is kept, the time to copy it.
  package func append(_ node: Node, style: JSONStyle, to output: inout JSONOutput) {
    guard !node.isPacked, let identity = node.identity else {
      return output.append(node, style: style)
    }
    _ = withText(of: node, Form(identity: identity, style: style), upTo: .max) { output.append($0) }
  }

  /// Appends the members of a branch in `plain` style, each after a comma.
  ///
  /// - Parameter bytesMax: the bytes after which to stop with a branch whose text is not kept.
  /// - Returns: whether all members were appended; if not, nothing was.
  package func append(
    membersOf node: Node, to output: inout JSONOutput, upTo bytesMax: Int
  ) -> Bool {
    guard !node.isPacked, let identity = node.identity else {
      output.append(membersOf: node)
      return true
    }
    return withText(of: node, Form(identity: identity, style: .plain), upTo: bytesMax) { text in
      // Not the text of an array, which has no keys.
      guard text.first == UInt8(ascii: "{") else { return output.append(membersOf: node) }
      output.append(UInt8(ascii: ","))
      output.append(UnsafeRawBufferPointer(rebasing: text.dropFirst().dropLast()))
    }
  }

  /// Appends parts of a reply. O(size).
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
      }
    }
  }

  /// Calls `body` with the text of a branch.
  ///
  /// - Returns: false if the text is not kept and has more than `bytesMax` bytes; then `body` is not called.
  private func withText(
    of node: Node, _ form: Form, upTo bytesMax: Int, _ body: (UnsafeRawBufferPointer) -> Void
  ) -> Bool {
    let state = state.value
    if let (_, text) = state.texts[form] {
      state.counts.found += 1
      text.withUnsafeReadableBytes(body)
      return true
    }
    state.counts.made += 1
    var text = JSONOutput(capacity: 512)
    guard text.append(node, style: form.style, upTo: bytesMax) else { return false }
    text.withBytes { bytes in
      body(bytes)
      keep(bytes, of: node, form, in: state)
    }
    return true
  }

  private func keep(
    _ text: UnsafeRawBufferPointer, of node: Node, _ form: Form, in state: State
  ) {
    guard text.count <= bytesMax / 64 else { return }
    while state.bytes + text.count > bytesMax, let oldest = state.order.popFirst() {
      state.bytes -= state.texts.removeValue(forKey: oldest)?.text.readableBytes ?? 0
    }
    state.bytes += text.count
    state.texts[form] = (node, ByteBuffer(bytes: text))
    state.order.append(form)
    assert(state.texts.count == state.order.count && state.bytes <= bytesMax)
  }
}
