public import CanopySocial
public import CanopyTree
public import CanopyWire

/// The answer to a request, before a front end encodes it for its protocol.
///
/// Small results are JSON already. Values of the tree are not: a front end encodes them as far as the
/// client reads.
public enum Reply: Sendable {
  /// The request failed, and changed nothing unless the error says otherwise.
  case failure(WireError)
  /// The request succeeded with a small result.
  case json(ReplyJSON)
  /// A post.
  case post(Key, Node)
  /// A list of posts or comments.
  case entries([Feeds.Entry])
  /// The value at a location, with its ETag if the request asked for it, and its bytes.
  case value(Node, JSONStyle, etag: String?, bytes: ValueBytes)
  /// Children in the order of a query, and their bytes with those of the array.
  case members([(key: Key, node: Node)], JSONStyle, bytes: ValueBytes)
  /// A compare-and-set found another value than expected.
  case mismatch(Node, etag: String, JSONStyle, bytes: ValueBytes)
  /// A subscription begins. Indirect: inline it would make each reply five times as large, and replies are moved often.
  indirect case subscribed(Subscribed)

  /// The bytes to charge while the reply waits.
  ///
  /// A reply shares its nodes with the tree at first. While it waits, the tree may change, and then only the reply holds
  /// them.
  public var heldBytes: Int {
    switch self {
    case .post(_, let node): node.heldBytes(atMost: Reply.countedBytesMax) + Reply.baseBytes
    case .entries(let entries):
      entries.memoryBytes(atMost: Reply.countedBytesMax) + Reply.baseBytes
    case .value(_, _, _, let bytes), .members(_, _, let bytes), .mismatch(_, _, _, let bytes):
      bytes.memory + Reply.baseBytes
    case .subscribed(let subscribed): subscribed.bytes.memory + Reply.baseBytes
    default: Reply.baseBytes
    }
  }

  /// The memory of a value in the reply; 0 for other replies. O(1)
  public var valueBytes: Int {
    switch self {
    case .value(_, _, _, let bytes), .members(_, _, let bytes), .mismatch(_, _, _, let bytes):
      bytes.memory
    default: 0
    }
  }

  private static let baseBytes = 256
  /// The bytes from which on the rest of a reply is not counted: no reply may be longer.
  private static let countedBytesMax = 16 * 1024 * 1024
}

extension [Feeds.Entry] {
  /// The bytes of memory that the entries hold, or a little more: an estimate up to a bound. O(children), but O(1) for
  /// each record.
  public func memoryBytes(atMost bytesMax: Int) -> Int {
    var bytes = 0
    for entry in self where bytes < bytesMax {
      bytes += entry.node.heldBytes(atMost: bytesMax - bytes)
    }
    return bytes
  }
}

/// The replies of several verbs.
extension Reply {
  /// The request succeeded without a result.
  public static var null: Reply { .json(.null) }

  /// The connection belongs to the administrator.
  static var administrator: Reply { .json(["administrator": .bool(true)]) }

  /// The connection closes.
  public static var farewell: Reply { .json(.constant("\"BYE\"")) }

  /// The id of a new post or comment.
  static func created(_ id: Key) -> Reply { .json(["id": .key(id)]) }

  /// The number of the commit of a write.
  static func committed(_ sequence: Int64) -> Reply { .json(["seq": .number(sequence)]) }

  /// The number of the commit of a compare-and-set that took place.
  static func exchanged(_ sequence: Int64) -> Reply {
    .json(["committed": .bool(true), "seq": .number(sequence)])
  }
}
