internal import CanopyRealtimeWire
internal import CanopyTree
internal import CanopyWire
internal import NIOCore

/// One large line or message of events: a short head for each subscription, and a rest that all share.
struct LargeEvent {
  /// The bytes after the head.
  let rest: ByteBuffer
  /// The frames, if it is a message of the realtime protocol.
  private let frames: SharedFrames?

  /// Creates a line.
  ///
  /// - Parameter rest: the line after `EventLine.begin`.
  init(line rest: ByteBuffer) {
    self.rest = rest
    frames = nil
  }

  /// Creates a message of the realtime protocol. O(bytes).
  ///
  /// - Parameter message: the message after `PushMessage.begin`.
  init(message: ByteBuffer) {
    let frames = message.withUnsafeReadableBytes {
      SharedFrames($0, beginningBytesMax: PushMessage.beginBytes(tag: .min))
    }
    self.frames = frames
    rest = ByteBuffer(bytes: frames.rest)
  }

  /// Returns the head for a subscription.
  func head(for label: Int64) -> ByteBuffer {
    var output = JSONOutput(capacity: 64)
    if let frames {
      var beginning = JSONOutput(capacity: 64)
      PushMessage.begin(tag: RealtimeEvent.tag(label), to: &beginning)
      beginning.withBytes { frames.appendHead($0, to: &output) }
    } else {
      EventLine.begin(label, to: &output)
    }
    return output.withBytes { ByteBuffer(bytes: $0) }
  }
}
