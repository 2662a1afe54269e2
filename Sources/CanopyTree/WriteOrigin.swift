/// The identity of a client's write. If a connection breaks before the reply, the client sends the
/// write again; the server recognises it and does not apply it twice.
public struct WriteOrigin: Hashable, Sendable {
  /// The name that the client chose at random and keeps secret. Anybody who knows it could make the
  /// server treat the client's writes as already applied.
  public var client: String
  /// The client's number of the write: from 1 on, never used twice.
  public var number: Int64
  /// The number up to which the client has received all replies. It never sends those writes again,
  /// so the server may forget them.
  public var seen: Int64

  /// The most bytes in a client's name.
  public static let clientBytesMax = 64

  /// Creates an origin.
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
