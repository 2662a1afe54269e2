public import CanopyEngine
public import CanopySession
public import CanopyWire
public import NIOCore

/// The part of a connection's handler that differs between protocols.
///
/// A subclass of `SessionHandler` conforms to it, so the compiler checks that it has all of this. The handler calls the
/// methods on the connection's event loop.
public protocol ClientProtocol: SessionHandler, ChannelHandler {
  /// Decodes bytes, and passes their requests to the session.
  func decode(_ context: ChannelHandlerContext, _ buffer: ByteBuffer)

  /// Carries out a read that does not take long, and appends its reply to the output. Returns whether it did.
  func readAtOnce(_ context: ChannelHandlerContext, _ request: ReadRequest) -> Bool

  /// Begins or ends a subscription. The outcome goes to the session.
  ///
  /// - Throws: the error for the client.
  func listen(
    _ context: ChannelHandlerContext, _ request: ListenRequest, _ slot: Session.Slot
  ) throws(WireError)

  /// The hash of the value that the client of a subscription has; nil for none.
  func knownHash(_ number: Int64) -> String?

  /// Whether the events before a snapshot must be sent before a subscription begins with it. Otherwise the client might get
  /// a value that is older than another one that it has got already.
  var beginsAfterEvents: Bool { get }

  /// Forgets a subscription, and with an error appends its end to the output.
  func forget(_ number: Int64, _ code: WireError.Code?)

  /// Forgets all subscriptions, because the connection ends.
  func forgetAll()

  /// Appends a reply to the output.
  ///
  /// - Parameter snapshot: the snapshot up to which the events were sent, if the reply has waited for them; nil for the
  ///   snapshot of the loop.
  func send(_ context: ChannelHandlerContext, _ reply: Reply, at snapshot: Snapshot?)

  /// The place in the pipeline from which encoded output goes to the socket; nil if it has left the pipeline.
  var outputContext: ChannelHandlerContext? { get }

  /// Appends the end of the connection to the output, with its reason if there is one.
  func appendEnd(_ reason: WireError?)
}

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
  /// The bytes of a long text that another thread decodes; 0 if there is no such text. They count as kept.
  var bytesBeside: Int { get set }
  /// Takes the next bytes of the backlog, to decode them; nil if the backlog is empty.
  func takeBacklog() -> ByteBuffer?
  /// Drops all that is kept, because the connection takes no more requests.
  func drop()
}
