/// The identity of a client's write. If a connection breaks before the reply, the client sends the
/// write again; the server recognises it and does not apply it twice.
///
/// A name of at least `secretBytesMin` bytes counts as a secret that the client drew at random and tells nobody.
/// Its writes are recognised on any connection: a client may lose a reply, log in or out, and send the write
/// again. A shorter name can be guessed. So each owner has short names of its own, and nobody can use up the
/// numbers of another. All clients without a login are one owner, so the server refuses their short names:
/// a stranger who guesses one could otherwise make the server take another client's write for a repeated one.
public struct WriteOrigin: Hashable, Sendable {
  /// The name that the client chose.
  public var client: String
  /// The user who sent the write: a uid, `anonymousOwner` or `administratorOwner`. Nil for a write that an
  /// earlier version stored, and until the server has set it.
  public var owner: String?
  /// The remote network of the client, which divides the clients without a login; nil for this machine. It is not stored,
  /// and so not known after a restart. Origins are compared without it.
  public var network: String?
  /// The client's number of the write: from 1 on, never used twice.
  public var number: Int64
  /// The number up to which the client has received all replies. It never sends those writes again,
  /// so the server may forget them.
  public var seen: Int64

  /// The most bytes in a client's name.
  public static let clientBytesMax = 64

  /// The bytes from which on the name of a client counts as secret: 16 characters drawn from 36 have 82
  /// random bits.
  public static let secretBytesMin = 16

  /// The owner of writes without a user. No uid contains a dot.
  public static let anonymousOwner = ".anonymous"

  /// The owner of the administrator's writes.
  public static let administratorOwner = ".administrator"

  /// Whether both have the same parts. Owners are compared by their bytes.
  public static func == (a: WriteOrigin, b: WriteOrigin) -> Bool {
    a.number == b.number && a.seen == b.seen && a.client.hasSameBytes(as: b.client)
      && a.owner.map { ByteString($0) } == b.owner.map { ByteString($0) }
  }

  /// Hashes the parts. The owner is hashed by its bytes.
  public func hash(into hasher: inout Hasher) {
    hasher.combine(ByteString(client))
    hasher.combine(owner.map { ByteString($0) })
    hasher.combine(number)
    hasher.combine(seen)
  }

  /// Creates an origin without an owner.
  ///
  /// - Throws: `TreeError.invalidData` if the name is empty, too long, or contains other characters
  ///   than ASCII letters, digits, `_` and `-`, or if the numbers do not satisfy 0 ≤ seen < number.
  public init(client: String, number: Int64, seen: Int64) throws(TreeError) {
    let isName = client.utf8.allSatisfy { byte in
      switch byte {
      case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
        UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "_"), UInt8(ascii: "-"):
        true
      default: false
      }
    }
    guard isName, 1...WriteOrigin.clientBytesMax ~= client.utf8.count else {
      throw .invalidData(
        "the name of a client must have 1 to \(WriteOrigin.clientBytesMax) characters, each an ASCII "
          + "letter, a digit, _ or -")
    }
    guard seen >= 0, seen < number else {
      throw .invalidData("the numbers of a write must be integers with 0 ≤ seen < number")
    }
    self.client = client
    self.number = number
    self.seen = seen
  }
}

extension WriteOrigin {
  private static let separator = UInt8(ascii: "/")

  /// Whether the name of the client counts as secret.
  public var isSecret: Bool { client.utf8.count >= WriteOrigin.secretBytesMin }

  /// The name under which the writes of the client are remembered: its own if that is secret, otherwise one
  /// for this owner.
  public var rememberedName: ByteString { ByteString(isSecret ? client : storedClient) }

  /// The owner for whom the writes of the client are remembered. The clients without a login of each remote network have
  /// one of their own, so that a stranger cannot make the server forget their writes.
  public var rememberedOwner: ByteString? {
    guard let owner else { return nil }
    guard let network, owner.hasSameBytes(as: WriteOrigin.anonymousOwner) else {
      return ByteString(owner)
    }
    // No uid contains a dot or a slash.
    return ByteString("\(owner)/\(network)")
  }

  /// The owner and the name of the client as they are stored: `owner/client`, or the name alone without an
  /// owner. Neither contains a slash.
  public var storedClient: String {
    owner.map { $0 + "/" + client } ?? client
  }

  /// Reads the stored form.
  ///
  /// - Parameter storedClient: as `storedClient`; the name alone for a write of an earlier version.
  /// - Throws: `TreeError.invalidData` when a part is invalid.
  public init(storedClient: String, number: Int64, seen: Int64) throws(TreeError) {
    let bytes = storedClient.utf8
    guard let slash = bytes.firstIndex(of: WriteOrigin.separator) else {
      try self.init(client: storedClient, number: number, seen: seen)
      return
    }
    let name = storedClient[bytes.index(after: slash)...]
    try self.init(client: String(name), number: number, seen: seen)
    let owner = storedClient[..<slash]
    guard !owner.isEmpty else {
      throw TreeError.invalidData("the owner of a client must not be empty")
    }
    self.owner = String(owner)
  }
}
