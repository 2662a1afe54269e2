public import CanopyTree
public import CanopyWire

/// Estimates of the memory of decoded writes, for the `Ledger`.
///
/// The bytes of a line say little about it: `"a/b/c":1` has nine bytes, and its decoded path alone has an array with 24
/// bytes for each key. Measured by the growth of a debug process (RSS) while it decoded an UPDATE line of 1 MB with
/// 101,010 locations of one key: the decoded request took 0.7 times the charge, and together with its `Write`, which
/// exists beside it for a moment, 1.5 times. Without these bytes the charge was 3 and 6.6 times too low.
extension Request {
  /// Returns an estimate of the memory that the request takes, in bytes. O(text).
  ///
  /// - Parameter text: the bytes from which it was decoded.
  public func memoryBytes(text: UnsafeRawBufferPointer) -> Int {
    // A write of the blog has texts and no nodes, so its text is not searched.
    if case .write(.blog) = self {
      return 1024 + text.count + Request.blogStringsMax * Request.longStringBytes
    }
    return Request.memoryBytes(text: text) + pathBytes
  }

  /// The most strings of a write of the blog.
  private static let blogStringsMax = 4

  /// The bytes of a member, a list or an object, however short it is. Measured by the growth of a release process: up to
  /// 92 bytes in lists of nine numbers, which take three pages each; 77 in lists of one element.
  private static let elementBytes = 96
  /// The bytes of a long key or string besides its text: an object of its own.
  private static let longStringBytes = 64
  /// The bytes of a priority: measured by the growth of a release process (RSS), a level with one took about 350 bytes.
  private static let priorityBytes = 320

  /// The bytes of a text from which on a value in it has a second text: the one for the journal.
  private static let encodedBytesMin = Operations.bytesEncodedAtOnceMax

  /// Returns an estimate of the memory of a decoded JSON text without the locations and server values in it. O(text).
  ///
  /// Each comma and each opening bracket counts as an element: a list or object takes a page of its own. A priority takes
  /// an object of its own and a position in the index of its parent.
  public static func memoryBytes(text: UnsafeRawBufferPointer) -> Int {
    let elements = JSONElements(text)
    let journalBytes = text.count >= encodedBytesMin ? text.count : 0
    return 1024 + text.count + journalBytes + elementBytes * elements.count
      + longStringBytes * elements.longStrings + priorityBytes * elements.priorities
  }

  /// The bytes that the request holds besides the text and the nodes of its values. O(locations + server values).
  public var pathBytes: Int {
    switch self {
    case .write(.tree(let write)), .write(.once(_, let write)): write.pathBytes
    case .write(.push(_, let value)): value.pathBytes
    case .connection(.onDisconnect(.set(_, let value), _)): value.pathBytes
    case .connection(.onDisconnect(.update(_, let changes), _)): changes.pathBytes
    case .administration(.explain(let request)):
      switch request.operation {
      case .set(_, let value): value.pathBytes
      case .update(_, let changes): changes.pathBytes
      case .read: 0
      }
    case .connection(.onDisconnect(.cancel, _)), .connection(.quit), .connection(.use),
      .administration(.setRules), .administration(.checkRules), .administration(.users),
      .administration(.user), .administration(.setDisabled), .administration(.setPassword),
      .administration(.sessions), .administration(.endSessions), .administration(.clients),
      .administration(.addUser), .administration(.makeResetCode), .administration(.deleteUser),
      .administration(.export), .administration(.logLevel),
      .administration(.client), .administration(.endClient), .administration(.metrics),
      .administration(.log), .administration(.namespaces), .administration(.makePass),
      .administration(.endPass), .administration(.makeBackup), .administration(.listBackups),
      .write(.blog), .write(.undecoded), .read, .account, .listen:
      0
    }
  }
}

extension ReadRequest {
  /// An estimate of the memory of a read that waits. O(path and query).
  var memoryBytes: Int {
    switch self {
    case .get(let location, let options):
      1024 + SubscriptionRequest.bytes(of: location.path)
        + SubscriptionRequest.bytes(of: options.query)
    case .count(let path, let query):
      1024 + SubscriptionRequest.bytes(of: path) + SubscriptionRequest.bytes(of: query)
    case .atLeast(_, let read): read.memoryBytes
    case .hello, .ping, .help, .whoAmI, .blog, .info, .rules, .keys: 1024
    }
  }
}

extension TreeWrite {
  fileprivate var pathBytes: Int {
    switch self {
    case .set(_, let value), .compareAndSet(_, _, let value): value.pathBytes
    case .update(_, let changes): changes.pathBytes
    }
  }
}

extension [Request.Update] {
  /// The bytes of the locations and server values. O(locations + server values).
  public var pathBytes: Int {
    reduce(0) { $0 + $1.location.memoryBytes + $1.value.pathBytes }
  }
}

extension Location {
  /// The bytes of one location of a write: its value, the growth of the array of locations, and an array of keys.
  fileprivate static let baseBytes = 200
  /// The bytes of a key in an array, and of a long key besides its text.
  fileprivate static let keyBytes = 48

  /// An estimate of the memory of the location with its place in a list. O(1).
  var memoryBytes: Int { Location.baseBytes + path.count * Location.keyBytes }
}

extension WriteValue {
  /// The bytes of the server values, each of which has a path of its own. O(server values).
  public var pathBytes: Int {
    serverValues.reduce(0) { $0 + Location.baseBytes + $1.path.count * Location.keyBytes }
  }
}
