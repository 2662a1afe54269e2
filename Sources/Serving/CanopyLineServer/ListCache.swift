internal import CanopyWire
internal import NIOCore

/// A request for a list that is the same for every caller.
struct SharedList: Equatable {
  private let request: BlogRead

  /// Creates the list of a request; nil if the request has another reply, or one that depends on the
  /// caller.
  init?(_ request: ReadRequest) {
    guard case .blog(let request) = request, request.isSharedList else { return nil }
    self.request = request
  }
}

/// The lines of long lists that were sent since the last commit.
///
/// The first page of the recent posts is the most frequent request. Most of its cost is copying the texts
/// of its entries to each client. Between two commits all clients share the same buffer.
///
/// One cache for each event loop. Use it on that loop only.
final class ListCache {
  /// The bytes from which on a line is kept.
  static let bytesMin = 4096
  /// The bytes of all lines that are kept.
  private let bytesMax: Int
  private let listsMax: Int
  private var sequence: Int64 = -1
  private var replies: [(list: SharedList, line: ByteBuffer)] = []
  private var bytes = 0

  /// The number of lines that `find` has returned.
  private(set) var found = 0

  init(listsMax: Int = 16, bytesMax: Int = 4 * 1024 * 1024) {
    self.listsMax = listsMax
    self.bytesMax = bytesMax
  }

  /// Returns the line of a list as it is after a commit; nil if it is not kept. O(lists).
  func find(_ list: SharedList, at sequence: Int64) -> ByteBuffer? {
    if sequence != self.sequence {
      removeAll()
      self.sequence = sequence
    }
    guard let reply = replies.first(where: { $0.list == list }) else { return nil }
    found += 1
    return reply.line
  }

  /// Keeps a line that `find` did not find, if it is long. Removes all others if there is no room.
  func keep(_ line: Slice<UnsafeRawBufferPointer>, of list: SharedList) {
    guard ListCache.bytesMin...bytesMax ~= line.count else { return }
    if replies.count >= listsMax || bytes + line.count > bytesMax { removeAll() }
    replies.append((list, ByteBuffer(bytes: UnsafeRawBufferPointer(rebasing: line))))
    bytes += line.count
  }

  private func removeAll() {
    replies.removeAll(keepingCapacity: true)
    bytes = 0
  }
}
