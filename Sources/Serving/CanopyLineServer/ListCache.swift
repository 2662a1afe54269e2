internal import CanopyTree
internal import CanopyWire
internal import NIOCore

/// A list that is the same for every user.
enum SharedList: Equatable {
  case recent(PageRequest)
  case posts(UserReference, PageRequest)
  case comments(Key, PageRequest)
  case top(UserReference?, PageRequest)

  /// Creates the list that a request asks for, or returns nil for another request, or for one whose answer
  /// depends on the user.
  init?(_ request: ReadRequest) {
    switch request {
    case .recent(let page): self = .recent(page)
    case .posts(let user, let page) where user != .me: self = .posts(user, page)
    case .comments(let id, let page): self = .comments(id, page)
    case .top(let user, let page) where user != .me: self = .top(user, page)
    case .posts, .top, .hello, .ping, .help, .whoAmI, .show, .profile, .get, .count, .info, .rules:
      return nil
    }
  }
}

/// The long lists that were told since the last commit, as the bytes that all who ask get.
///
/// The first page of the recent posts is what everyone asks for. Making it up of its entries' text and
/// copying that to each is most of what it costs; between two commits all get the same buffer.
///
/// One for each event loop, and touched there alone.
final class ListCache {
  /// Bytes from which on a reply is worth it.
  static let bytesMin = 4096
  /// Bytes of all replies that are kept.
  private let bytesMax: Int
  private let listsMax: Int
  private var sequence: Int64 = -1
  private var replies: [(list: SharedList, line: ByteBuffer)] = []
  private var bytes = 0

  /// Replies that were found.
  private(set) var found = 0

  init(listsMax: Int = 16, bytesMax: Int = 4 * 1024 * 1024) {
    self.listsMax = listsMax
    self.bytesMax = bytesMax
  }

  /// The reply with a list as it is after a commit. O(lists).
  func find(_ list: SharedList, at sequence: Int64) -> ByteBuffer? {
    if sequence != self.sequence {
      forget()
      self.sequence = sequence
    }
    guard let reply = replies.first(where: { $0.list == list }) else { return nil }
    found += 1
    return reply.line
  }

  /// Keeps the reply that `find` did not find, if it is long. When there is no room, all others are
  /// forgotten.
  func keep(_ line: Slice<UnsafeRawBufferPointer>, of list: SharedList) {
    guard ListCache.bytesMin...bytesMax ~= line.count else { return }
    if replies.count >= listsMax || bytes + line.count > bytesMax { forget() }
    replies.append((list, ByteBuffer(bytes: UnsafeRawBufferPointer(rebasing: line))))
    bytes += line.count
  }

  private func forget() {
    replies.removeAll(keepingCapacity: true)
    bytes = 0
  }
}
