package import NIOCore

/// The input of one connection that its session does not take yet.
///
/// A class, because requests are received while the input is being decoded, and receiving a request looks at the input
/// again. Use it on the connection's event loop only.
package protocol ConnectionInput: AnyObject {
  /// The memory of the bytes that are kept.
  var byteCount: Int { get }
  /// Whether whole requests may be among the bytes that are kept.
  var hasBacklog: Bool { get }
  /// Whether bytes are being decoded.
  var isDecoding: Bool { get }
  /// The bytes of a long text that is decoded beside the event loop; 0 if there is none. They count as kept.
  var bytesBeside: Int { get set }
  /// Takes bytes of the backlog, in order to decode them; nil if there is none.
  func takeBacklog() -> ByteBuffer?
  /// Drops all that is kept, because the connection takes no more requests.
  func drop()
}
