internal import CanopyTree
internal import NIOCore

/// The text of posts and comments that lists have shown, by the node that they are.
///
/// A list of a hundred posts is mostly the list that was asked for before. Small posts are text already;
/// of large ones, such as those with many stars, writing the text anew is most of what answering costs. A
/// node never changes, and is held here, so its identity stands for its text; a post that is starred is
/// another node. When the bound is reached all is forgotten: what is in demand comes back at once.
///
/// One for each event loop, and touched there alone.
final class EntryCache {
  /// Bytes of text that are kept.
  private let bytesMax: Int
  private var entries: [ObjectIdentifier: (node: Node, text: ByteBuffer)] = [:]
  private var bytes = 0

  /// Texts that were made, and that were found.
  private(set) var counts = (made: 0, found: 0)

  init(bytesMax: Int = 8 * 1024 * 1024) {
    self.bytesMax = bytesMax
  }

  /// Appends the members of an entry, each after a comma.
  ///
  /// - Parameter bytesMax: the bytes after which to give up on an entry that is not kept.
  /// - Returns: whether all were appended.
  func append(
    membersOf node: Node, to output: inout JSONOutput, upTo bytesMax: Int
  ) -> Bool {
    guard !node.isPacked, let identity = node.identity else {
      output.append(membersOf: node)
      return true
    }
    if let entry = entries[identity] {
      counts.found += 1
      entry.text.withUnsafeReadableBytes { output.append($0) }
      return true
    }
    counts.made += 1
    var text = JSONOutput(capacity: 512)
    guard text.append(membersOf: node, upTo: bytesMax) else { return false }
    text.withBytes { output.append($0) }
    guard text.count <= self.bytesMax / 64 else { return true }
    if bytes + text.count > self.bytesMax {
      entries.removeAll(keepingCapacity: true)
      bytes = 0
    }
    bytes += text.count
    entries[identity] = (node, text.withBytes { ByteBuffer(bytes: $0) })
    return true
  }
}
