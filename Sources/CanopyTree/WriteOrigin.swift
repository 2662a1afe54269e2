/// Which write of which client this is, so that one that is sent again, because its answer was lost
/// with a connection, is not made again.
public struct WriteOrigin: Hashable, Sendable {
  /// A name that the client drew at random for itself, and tells nobody: whoever knows it can have
  /// writes of the client taken for made.
  public var client: String
  /// The number that the client gave the write: from 1 on, no number twice.
  public var number: Int64
  /// The client has the answers to all its writes up to this number and will not send them again; so
  /// they may be forgotten.
  public var seen: Int64

  /// The most bytes in the name of a client.
  public static let clientBytesMax = 64

  /// An origin.
  ///
  /// - Throws: `TreeError.invalidData` when the name is empty, long, or not made of ASCII letters,
  ///   digits, `_` and `-`, or when the numbers are not 0 ≤ seen < number.
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
