internal import CanopySocial
internal import CanopyTree
internal import CanopyWire

/// The sizes of the writes of the blog, for quotas and the bound on the tree.
extension BlogWrite {
  /// The bytes of a record of the blog besides its texts.
  private static let recordBytes = 512

  /// The bytes of the texts and ids.
  var bytes: Int {
    switch self {
    case .post(let title, let body): title.utf8.count + body.utf8.count
    case .edit(let id, let title, let body): id.utf8Count + title.utf8.count + body.utf8.count
    case .comment(let id, let text): id.utf8Count + text.utf8.count
    case .rename(let username): username.utf8.count
    case .delete(let id), .star(let id): id.utf8Count
    case .uncomment(let id, let comment): id.utf8Count + comment.utf8Count
    }
  }

  /// Returns the bytes that the write adds to the memory of the tree, with its copies; 0 or less if it adds none.
  func growth(over root: Node, by user: Key?) -> Int {
    switch self {
    case .post(let title, let body):
      // With its second copy.
      2 * (title.utf8.count + body.utf8.count + BlogWrite.recordBytes)
    case .edit(let id, let title, let body):
      2 * (title.utf8.count + body.utf8.count - Posts.textBytes(of: id, in: root))
    case .comment(_, let text): text.utf8.count + BlogWrite.recordBytes
    case .star(let id):
      user.map { Posts.hasStar(of: $0, on: id, in: root) } == true ? 0 : BlogWrite.recordBytes
    case .rename: BlogWrite.recordBytes
    case .delete, .uncomment: 0
    }
  }
}
