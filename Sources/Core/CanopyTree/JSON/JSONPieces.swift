/// The JSON of a node, written piece by piece.
///
/// `JSONOutput.append` writes a node in one go, which takes long for a large one. This writes the same bytes
/// with as many calls as the caller wants, and may wait in between for as long as it likes:
///
///     var pieces = JSONPieces(node, style: .plain)
///     while !pieces.isDone { pieces.write(to: &output, bytes: 65_536); send(&output) }
///
/// It holds the node, and one place for each level of the tree; nothing else. A long text is cut as well, between two
/// characters.
public struct JSONPieces: Sendable {
  /// A branch that is not written to its end.
  private struct Branch: Sendable {
    var children: Children.Iterator
    let style: JSONStyle
    var isFirst: Bool
    /// The index of the next and of the last element; nil for an object.
    var array: (next: Int32, last: Int32)?
    /// The element before which some nulls are still to be written.
    var awaited: Child?
  }

  /// A long text that is not written to its end.
  private struct LongText: Sendable {
    let text: String
    /// The bytes that are written.
    var written = 0
    /// The priority, which follows the text; nil if none is written.
    let priority: Node?
  }

  /// The most bytes of a text that is written in one go. In a piece it may have six times as many.
  private static let wholeTextBytesMax = 256

  /// The most nulls that one step writes into an array.
  private static let nullsMax: Int32 = 1_024

  /// The node that is not begun.
  private var first: (node: Node, style: JSONStyle)?
  /// The branches that were begun, from the outermost.
  private var open: [Branch] = []
  /// A small node whose members and end of the object are not begun.
  private var rest: Node?
  /// The text that was begun. It is the next thing to write.
  private var longText: LongText?

  /// Creates the JSON of a node. O(1).
  public init(_ node: Node, style: JSONStyle = .plain) {
    first = (node, style)
  }

  /// Creates the members of a node as the last ones of an object that has others before them, and the end of the object:
  /// `,"a":1}`. O(1).
  public init(restOfObject node: Node) {
    if node.packed == nil, let children = node.children {
      open = [Branch(children: children.makeIterator(), style: .plain, isFirst: false)]
    } else {
      rest = node
    }
  }

  /// Whether everything is written.
  public var isDone: Bool { first == nil && rest == nil && open.isEmpty && longText == nil }

  /// Appends the next piece: as many bytes as asked for, and at most one key with a short text, or one record, more.
  ///
  /// O(bytes).
  public mutating func write(to output: inout JSONOutput, bytes: Int) {
    let end = output.count + max(1, bytes)
    if let (node, style) = first {
      first = nil
      begin(node, style, &output)
    }
    if let node = rest.take() {
      node.forEachChild { key, child in
        output.append(UInt8(ascii: ","))
        output.append(key: key)
        output.append(UInt8(ascii: ":"))
        output.append(child, style: .plain)
        return true
      }
      output.append(UInt8(ascii: "}"))
    }
    while output.count < end, !isDone {
      if longText == nil { step(&output) } else { goOn(&output, to: end) }
    }
  }

  /// Writes the next bytes of the text that was begun, or its end.
  ///
  /// - Parameter end: the count of the output at which the piece ends.
  private mutating func goOn(_ output: inout JSONOutput, to end: Int) {
    guard var current = longText.take() else { return }
    let room = max(1, end - output.count)
    // An escape has up to six bytes. So a large piece comes near its end by some large steps, and then by short ones.
    let bytes = min(room, max(room / 6, JSONPieces.wholeTextBytesMax))
    let isWhole = current.text.withUTF8Bytes { text in
      var next = min(current.written + bytes, text.count)
      while next < text.count, text[next] & 0xC0 == 0x80 { next += 1 }
      output.append(escaping: UnsafeRawBufferPointer(rebasing: text[current.written..<next]))
      current.written = next
      return next == text.count
    }
    guard isWhole else { return longText = current }
    output.append(UInt8(ascii: "\""))
    guard let priority = current.priority else { return }
    output.append(",\".priority\":")
    output.append(priority)
    output.append(UInt8(ascii: "}"))
  }

  /// Writes the next member, or the end, of the innermost branch.
  private mutating func step(_ output: inout JSONOutput) {
    let last = open.count - 1
    guard let child = open[last].awaited.take() ?? nextChild(of: last, &output) else {
      output.append(open[last].array == nil ? UInt8(ascii: "}") : UInt8(ascii: "]"))
      open.removeLast()
      return
    }
    if let array = open[last].array {
      // Integers sort first, and ascend.
      let index = child.key.integer ?? array.last
      let nulls = min(max(0, index &- array.next), JSONPieces.nullsMax)
      for _ in 0..<nulls { output.append("null,") }
      open[last].array = (array.next &+ nulls, array.last)
      if array.next &+ nulls < index { return open[last].awaited = child }
      open[last].array = (index &+ 1, array.last)
    } else {
      output.append(key: child.key)
      output.append(UInt8(ascii: ":"))
    }
    begin(child.node, open[last].style, &output)
  }

  /// Takes the next child of a branch, and writes the comma before it.
  private mutating func nextChild(of index: Int, _ output: inout JSONOutput) -> Child? {
    guard let child = open[index].children.next() else { return nil }
    if !open[index].isFirst { output.append(UInt8(ascii: ",")) }
    open[index].isFirst = false
    return child
  }

  /// Writes a node that is small, and the first bytes of any other.
  private mutating func begin(_ node: Node, _ style: JSONStyle, _ output: inout JSONOutput) {
    guard node.packed == nil, let children = node.children else {
      return begin(leaf: node, style, &output)
    }
    WorkCounter.touch()
    var branch = Branch(children: children.makeIterator(), style: style, isFirst: true)
    if case .export = style, node.isPrioritized {
      output.append("{\".priority\":")
      output.append(node.priority)
      branch.isFirst = false
    } else if case .plain = style, let last = JSONOutput.arrayEnd(children) {
      output.append(UInt8(ascii: "["))
      branch.array = (0, last)
    } else {
      output.append(UInt8(ascii: "{"))
    }
    open.append(branch)
  }

  /// Writes a leaf or a record, but of a long text only the first bytes.
  private mutating func begin(leaf node: Node, _ style: JSONStyle, _ output: inout JSONOutput) {
    guard let text = node.stringValue, text.utf8.count > JSONPieces.wholeTextBytesMax else {
      return output.append(node, style: style)
    }
    WorkCounter.touch()
    var priority: Node?
    if case .export = style, node.isPrioritized {
      priority = node.priority
      output.append("{\".value\":")
    }
    output.append(UInt8(ascii: "\""))
    longText = LongText(text: text, priority: priority)
  }
}
