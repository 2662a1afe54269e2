internal import CanopyEngine
internal import CanopyRealtimeWire
package import CanopyTree
internal import CanopyWire

/// Lines that are encoded piece by piece, as the client reads them.
///
/// Encoding a large reply at once would block its event loop, and take its size in memory until the client
/// has read it. `LinePieces` holds the nodes, which it mostly shares with the tree, and encodes one piece at
/// a time. All pieces together are the bytes of the reply encoded at once.
///
/// A value of one connection. Use it on that connection's event loop only.
package struct LinePieces {
  /// A part of the lines.
  package enum Part: Sendable {
    /// Encoded text.
    case text([UInt8])
    /// The JSON of a node.
    case node(Node, JSONStyle)
    /// The JSON of an object with these children in this order; null without children.
    case members(ArraySlice<(key: Key, node: Node)>, JSONStyle)
    /// The members of a node, and the end of the object that contains them after other members.
    case rest(Node)
    /// The locations and values of a patch, as members of an object.
    case puts(ArraySlice<Assignment>)

    /// Returns the text that `write` appends.
    package static func text(_ write: (inout JSONOutput) -> Void) -> Part {
      var output = JSONOutput(capacity: 128)
      write(&output)
      return .text(output.bytes)
    }
  }

  /// The size of all lines in bytes, or a little more.
  package let bytes: Int
  /// The bytes of the memory that the lines hold, or a little more.
  private let memory: Int
  /// The number of bytes that were encoded.
  package private(set) var written = 0
  /// Returns the next parts, given the number of bytes before them; an empty array at the end.
  private let more: (Int) -> [Part]
  /// The parts that wait, in reverse order. A large value, a list or a patch is one part, whose members are taken from it
  /// one by one: to make a part of each would hold the event loop.
  private(set) var parts: [Part] = []
  private var value: JSONPieces?
  package private(set) var isDone = false
  /// The frames of the text, if it is a message of the realtime protocol.
  private var frames: FrameStream?
  /// The values, if they are large.
  private let values: HeldValues?

  /// Creates lines of the parts that `more` returns.
  ///
  /// - Parameters:
  ///   - bytes: the size of all lines in bytes, or a little more; and the memory of the values in them.
  ///   - values: the values in the lines, which are freed on another thread if they are large; nil if they are small.
  ///   - more: returns the next parts, given the number of bytes before them; an empty array at the end.
  package init(
    bytes: ValueBytes, of values: (any Sendable)? = nil,
    _ more: @escaping (_ written: Int) -> [Part]
  ) {
    self.bytes = bytes.json
    memory = bytes.memory + LinePieces.baseBytes
    self.values =
      bytes.memory < HeldValues.freedAtOnceMax ? nil : values.map { HeldValues($0) }
    self.more = more
  }

  /// Creates lines of these parts.
  package init(bytes: ValueBytes, parts: [Part]) {
    self.init(bytes: bytes, of: parts) { _ in [] }
    self.parts = parts.reversed()
  }

  /// The memory of the lines besides that of their values.
  private static let baseBytes = 1024

  /// Creates a message of the realtime protocol, in WebSocket frames.
  ///
  /// - Parameter bytes: the bytes of the values in it.
  package init(message bytes: ValueBytes, _ parts: [Part]) {
    self.init(bytes: bytes, parts: parts)
    let texts = parts.reduce(0) { count, part in
      if case .text(let text) = part { count + text.count } else { count }
    }
    frames = FrameStream(bytesMax: bytes.json + texts)
  }

  /// The bytes to charge: the memory of all values until the end. These lines may soon be the only holder of their
  /// version of the tree, and they release it as a whole.
  package var heldBytes: Int { isDone ? 0 : memory }

  /// Appends the next piece. O(bytes)
  package mutating func write(to output: inout JSONOutput, bytes: Int) {
    guard frames != nil else { return writeText(to: &output, bytes: bytes) }
    var text = JSONOutput(capacity: bytes + 1024)
    writeText(to: &text, bytes: bytes)
    text.withBytes { frames?.append($0, isLast: isDone, to: &output) }
  }

  private mutating func writeText(to output: inout JSONOutput, bytes: Int) {
    let start = output.count
    let end = start + max(1, bytes)
    while output.count < end, !isDone {
      if var current = value {
        value = nil
        current.write(to: &output, bytes: end - output.count)
        if !current.isDone { value = current }
      } else if let part = parts.popLast() {
        begin(part, &output)
      } else {
        parts = more(written + output.count - start).reversed()
        isDone = parts.isEmpty
      }
    }
    // The piece may end exactly at the end of the lines.
    if value == nil, parts.isEmpty, !isDone {
      parts = more(written + output.count - start).reversed()
      isDone = parts.isEmpty
    }
    written += output.count - start
  }

  private mutating func begin(_ part: Part, _ output: inout JSONOutput) {
    switch part {
    case .text(let bytes): bytes.withUnsafeBytes { output.append($0) }
    case .node(let node, let style): value = JSONPieces(node, style: style)
    case .members(var members, let style):
      let isFirst = members.startIndex == 0
      guard let (key, node) = members.popFirst() else {
        return output.append(isFirst ? "null" : "}")
      }
      output.append(UInt8(ascii: isFirst ? "{" : ","))
      output.append(key: key)
      output.append(UInt8(ascii: ":"))
      value = JSONPieces(node, style: style)
      parts.append(.members(members, style))
    case .rest(let node): value = JSONPieces(restOfObject: node)
    case .puts(var puts):
      let isFirst = puts.startIndex == 0
      guard let put = puts.popFirst() else { return }
      EventLine.member(of: put, isFirst: isFirst, to: &output)
      value = JSONPieces(put.value, style: .export)
      parts.append(.puts(puts))
    }
  }
}

extension LinePieces.Part {
  /// The end of a line.
  package static let lineEnd = LinePieces.Part.text(Array("\r\n".utf8))
}

extension LinePieces {
  /// Creates one line with a large value.
  ///
  /// - Parameter write: appends the line, and calls its second argument at the position of the value.
  package init(
    bytes: ValueBytes, _ node: Node, _ style: JSONStyle,
    _ write: (inout JSONOutput, (inout JSONOutput) -> Void) -> Void
  ) {
    self.init(bytes: bytes, parts: LinePieces.parts(.node(node, style), write))
  }

  /// Returns the parts of a line that contains a large part.
  ///
  /// - Parameter write: appends the line, and calls its second argument at the position of the part.
  package static func parts(
    _ part: Part, _ write: (inout JSONOutput, (inout JSONOutput) -> Void) -> Void
  ) -> [Part] {
    var output = JSONOutput(capacity: 256)
    var place = 0
    write(&output) { place = $0.count }
    let text = output.bytes
    return [.text(Array(text[..<place])), part, .text(Array(text[place...]))]
  }

  /// Returns the parts of a post or comment.
  package static func parts(ofEntry key: Key, _ node: Node) -> [Part] {
    let head = Part.text {
      $0.append("{\"id\":")
      $0.append(key: key)
    }
    return [head, .rest(node)]
  }
}

/// The values of some lines, which are freed on another thread. The lines may be the only holder of their version of the
/// tree, and freeing a large one would hold the event loop.
private final class HeldValues {
  /// The bytes of memory that the event loop frees itself: less than a millisecond.
  static let freedAtOnceMax = 1024 * 1024

  private var values: (any Sendable)?

  init(_ values: any Sendable) {
    self.values = values
  }

  deinit {
    // Taken, so that the other thread has the last reference.
    RetiredTrees.free([values.take()])
  }
}
