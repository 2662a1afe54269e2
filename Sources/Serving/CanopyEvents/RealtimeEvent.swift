internal import CanopyRealtimeWire
package import CanopyTree
internal import NIOCore

/// The events of the realtime protocol: messages with absolute paths.
///
/// A commit is one message, so that a client never shows a part of it.
package enum RealtimeEvent {
  /// The label of a subscription without a tag.
  package static let noTag: Int64 = -1

  /// Returns the tag that a label stands for.
  static func tag(_ label: Int64) -> Int64? { label == noTag ? nil : label }

  /// Appends the message about some new values without its beginning.
  static func append(_ puts: [Assignment], at path: Path, to output: inout JSONOutput) {
    guard let first = puts.first else { return }
    guard puts.count > 1 else {
      return PushMessage.put(first.location.below(path), to: &output) {
        $0.append(first.value, style: .export)
      }
    }
    PushMessage.merge(path, to: &output) { output in
      for (index, put) in puts.enumerated() {
        PushMessage.member(put.location, isFirst: index == 0, to: &output)
        output.append(put.value, style: .export)
      }
    }
  }

  /// Returns the frames of messages.
  ///
  /// - Parameters:
  ///   - rests: the messages without their beginnings, one after the other.
  ///   - ends: the end of each.
  static func frames(_ rests: ByteBuffer, ends: [Int], tag: Int64?) -> ByteBuffer {
    var beginning = JSONOutput(capacity: 64)
    PushMessage.begin(tag: tag, to: &beginning)
    var output = JSONOutput(
      capacity: rests.readableBytes
        + ends.count * (beginning.count + MessageFrames.headBytesMax))
    beginning.withBytes { beginning in
      rests.withUnsafeReadableBytes { bytes in
        var start = 0
        for end in ends {
          MessageFrames.append(
            beginning, UnsafeRawBufferPointer(rebasing: bytes[start..<end]), to: &output)
          start = end
        }
      }
    }
    return output.withBytes { ByteBuffer(bytes: $0) }
  }

  /// Returns the parts of the message about some new values.
  package static func parts(_ puts: [Assignment], at path: Path, tag: Int64?) -> [LinePieces.Part] {
    func begin(_ output: inout JSONOutput) { PushMessage.begin(tag: tag, to: &output) }
    guard let first = puts.first else { return [] }
    guard puts.count > 1 else {
      return LinePieces.parts(.node(first.value, .export)) {
        begin(&$0)
        PushMessage.put(first.location.below(path), to: &$0, $1)
      }
    }
    // The members replace an empty text between the beginning and the end of the message.
    var parts = LinePieces.parts(.text([])) {
      begin(&$0)
      PushMessage.merge(path, to: &$0, $1)
    }
    var members: [LinePieces.Part] = []
    for (index, put) in puts.enumerated() {
      members.append(
        .text { PushMessage.member(put.location, isFirst: index == 0, to: &$0) })
      members.append(.node(put.value, .export))
    }
    parts.replaceSubrange(1..<2, with: members)
    return parts
  }
}

extension Location {
  /// Returns the location of this one's path below another path.
  fileprivate func below(_ base: Path) -> Location {
    Location(base.appending(path), isPriority: isPriority)
  }
}
