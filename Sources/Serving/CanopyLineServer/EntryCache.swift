internal import CanopyTree
internal import NIOCore

/// The JSON text of posts and comments in lists, by the identity of their nodes.
///
/// Two requests for a list mostly get the same posts. Small posts are stored as text. For large posts,
/// such as those with many stars, encoding is most of the cost of a reply, so the cache keeps their
/// text. A node never changes, and the cache holds it, so the identity of the node identifies the text.
/// A post with another star is another node. At its bound the cache removes all texts; those in demand
/// are soon back.
///
/// One cache for each event loop. Use it on that loop only.
final class EntryCache {
  /// The most bytes of text to keep.
  private let bytesMax: Int
  private var entries: [ObjectIdentifier: (node: Node, text: ByteBuffer)] = [:]
  private var bytes = 0

  /// The number of texts that were encoded, and that were found.
  private(set) var counts = (made: 0, found: 0)

  init(bytesMax: Int = 8 * 1024 * 1024) {
    self.bytesMax = bytesMax
  }

  /// Appends the members of an entry, each after a comma.
  ///
  /// - Parameter bytesMax: the bytes after which to stop with an entry that is not in the cache.
  /// - Returns: whether all members were appended.
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
