import CanopyRealtimeWire
import CanopyTesting
import Synchronization

/// Reads the frames of a server, and puts each message into a mailbox as a line.
///
/// Control frames are lines as well: `(pong)`, `(close 1000)`. A fragment of a message waits for the others.
final class FrameReader: Sendable {
  private struct State {
    var bytes: [UInt8] = []
    var fragments: [UInt8] = []
    var assembler = MessageAssembler(bytesMax: 64 * 1024 * 1024)
    /// The frames with text since the last look.
    var frames = 0
    var frameBytesMax = 0
    var isHead: Bool
  }

  let mailbox = LineMailbox()
  /// Whether frames are joined into messages by the numbers before them.
  private let joinsFrames: Bool
  private let state: Mutex<State>

  /// - Parameters:
  ///   - hasHead: whether the head of an HTTP response comes first.
  ///   - joinsFrames: whether frames are joined into messages by the numbers before them.
  init(hasHead: Bool, joinsFrames: Bool) {
    self.joinsFrames = joinsFrames
    state = Mutex(State(isHead: hasHead))
  }

  /// The number of frames with text, and the size of the largest one.
  var frames: (count: Int, bytesMax: Int) { state.withLock { ($0.frames, $0.frameBytesMax) } }

  func receive(_ bytes: [UInt8]) {
    let lines = state.withLock { state in
      state.bytes += bytes
      if state.isHead {
        guard let head = FrameReader.takeHead(&state.bytes) else { return [[UInt8]]() }
        state.isHead = false
        if !head.contains(" 101 ") { return [Array("(\(head))".utf8)] }
      }
      var lines: [[UInt8]] = []
      while let (kind, payload) = FrameReader.takeFrame(&state.bytes) {
        receive(kind, payload, &state, &lines)
      }
      return lines
    }
    for line in lines { mailbox.receive(line + Array("\r\n".utf8)) }
  }

  private func receive(
    _ kind: UInt8, _ payload: [UInt8], _ state: inout State, _ lines: inout [[UInt8]]
  ) {
    switch kind & 0x0F {
    case 0x0, 0x1:
      state.fragments += payload
      guard kind & 0x80 != 0 else { return }
      let text = state.fragments
      state.fragments = []
      state.frames += 1
      state.frameBytesMax = max(state.frameBytesMax, text.count)
      guard joinsFrames else { return lines.append(text) }
      text.withUnsafeBytes { bytes in
        state.assembler.receive(bytes) { outcome in
          switch outcome {
          case .message(let message): lines.append(Array(message))
          case .incomplete: break
          case .tooLarge, .invalid: lines.append(Array("(invalid frames)".utf8))
          }
        }
      }
    case 0x8:
      let code = payload.prefix(2).reduce(0) { $0 << 8 | Int($1) }
      lines.append(Array("(close \(code))".utf8))
    case 0xA: lines.append(Array("(pong \(String(decoding: payload, as: UTF8.self)))".utf8))
    default: lines.append(Array("(unknown frame)".utf8))
    }
  }

  private static func takeHead(_ bytes: inout [UInt8]) -> String? {
    let end = Array("\r\n\r\n".utf8)
    guard bytes.count >= end.count,
      let start = (0...(bytes.count - end.count)).first(where: {
        bytes[$0..<($0 + end.count)].elementsEqual(end)
      })
    else { return nil }
    let line = bytes.prefix { $0 != UInt8(ascii: "\r") }
    let head = String(decoding: line, as: UTF8.self)
    bytes.removeFirst(start + end.count)
    return head
  }

  private static func takeFrame(_ bytes: inout [UInt8]) -> (kind: UInt8, payload: [UInt8])? {
    guard bytes.count >= 2 else { return nil }
    var start = 2
    var count = Int(bytes[1])
    let wide = count == 126 ? 2 : count == 127 ? 8 : 0
    if wide > 0 {
      guard bytes.count >= 2 + wide else { return nil }
      count = bytes[2..<(2 + wide)].reduce(0) { $0 << 8 | Int($1) }
      start += wide
    }
    guard bytes.count >= start + count else { return nil }
    defer { bytes.removeFirst(start + count) }
    return (bytes[0], Array(bytes[start..<(start + count)]))
  }
}

/// Frames of a client.
enum ClientFrame {
  static let textKind: UInt8 = 0x81

  /// Returns a frame, masked as a client must.
  static func bytes(_ kind: UInt8 = textKind, _ payload: [UInt8]) -> [UInt8] {
    let mask: [UInt8] = [0x12, 0x34, 0x56, 0x78]
    var frame = [kind]
    if payload.count < 126 {
      frame.append(0x80 | UInt8(payload.count))
    } else if payload.count <= 0xFFFF {
      frame += [0x80 | 126, UInt8(payload.count >> 8), UInt8(payload.count & 0xFF)]
    } else {
      frame.append(0x80 | 127)
      for shift in stride(from: 56, through: 0, by: -8) {
        frame.append(UInt8(payload.count >> shift & 0xFF))
      }
    }
    frame += mask
    for (index, byte) in payload.enumerated() { frame.append(byte ^ mask[index % 4]) }
    return frame
  }

  /// Returns the frames of a message: a number and the pieces if it is long.
  static func message(_ text: String) -> [UInt8] {
    let bytes = Array(text.utf8)
    guard bytes.count > MessageFrames.charactersMax else { return self.bytes(textKind, bytes) }
    var pieces: [ArraySlice<UInt8>] = []
    var rest = bytes[...]
    while !rest.isEmpty {
      var end = min(rest.startIndex + MessageFrames.charactersMax, rest.endIndex)
      while end < rest.endIndex, rest[end] & 0xC0 == 0x80 { end -= 1 }
      pieces.append(rest[..<end])
      rest = rest[end...]
    }
    return self.bytes(textKind, Array(String(pieces.count).utf8))
      + pieces.flatMap { self.bytes(textKind, Array($0)) }
  }
}
