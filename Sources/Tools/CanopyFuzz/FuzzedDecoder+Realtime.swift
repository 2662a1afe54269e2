internal import CanopyClient
internal import CanopyRealtime
internal import CanopyRealtimeWire
internal import CanopySession
internal import CanopyTree
internal import Logging
internal import NIOCore
internal import NIOEmbedded
internal import NIOWebSocket

/// The realtime protocol.
extension FuzzedDecoder {
  /// A message of a client, as the server reads it.
  static let clientMessages = FuzzedDecoder(
    name: "client-messages",
    sources: [
      "Core/CanopyRealtimeWire/ClientMessage+Decode.swift",
      "Core/CanopyRealtimeWire/Query+Wire.swift", "Core/CanopyWire/JSONMembers.swift",
    ]
  ) { input in
    func decode(_ bytes: UnsafeRawBufferPointer) throws -> ClientMessage {
      try ClientMessage(bytes, limits: Limits())
    }
    _ = ClientMessage.number(inBeginning: input)
    guard let message = try? input.withUnsafeBytes(decode) else { return false }
    var first = JSONOutput()
    first.append(message)
    guard let again = try? first.withBytes(decode) else {
      throw Finding(description: "the message is refused when it is read again: \(first.text)")
    }
    var second = JSONOutput()
    second.append(again)
    try expect(first.bytes == second.bytes, "the message differs: \(first.text), \(second.text)")
    return true
  }

  /// A message of a server, as clients read it.
  static let serverMessages = FuzzedDecoder(
    name: "server-messages", sources: ["Client/CanopyClient/Connection/RealtimeMessage.swift"]
  ) { input in
    guard let message = try? input.withUnsafeBytes({ try RealtimeMessage($0) }) else {
      return false
    }
    var output = JSONOutput()
    switch message {
    case .answer(let number, _, let data) where !data.isEmpty:
      ServerMessage.answer(number, .ok, to: &output) { output in
        data.withUnsafeBytes { output.append($0) }
      }
      guard case .answer(number, _, data)? = try? output.withBytes({ try RealtimeMessage($0) })
      else { throw Finding(description: "an answer differs: \(output.text)") }
    case .changed(_, let tag, let puts):
      PushMessage.begin(tag: tag, to: &output)
      PushMessage.merge(.root, to: &output) { output in
        for (index, put) in puts.enumerated() {
          PushMessage.member(put.location, isFirst: index == 0, to: &output)
          output.append(put.value, style: .export)
        }
      }
      guard case .changed(_, tag, puts)? = try? output.withBytes({ try RealtimeMessage($0) })
      else { throw Finding(description: "a change differs: \(output.text)") }
    default: break
    }
    return true
  }

  /// The frames of messages, in both directions. A zero byte ends a frame.
  static let messageFrames = FuzzedDecoder(
    name: "message-frames",
    sources: [
      "Core/CanopyRealtimeWire/MessageAssembler.swift",
      "Core/CanopyRealtimeWire/MessageFrames.swift",
    ]
  ) { input in
    let bytesMax = 256
    var assembler = MessageAssembler(bytesMax: bytesMax)
    var longest = 0
    var messages = 0
    for frame in input.split(separator: 0, omittingEmptySubsequences: false) {
      Array(frame).withUnsafeBytes { frame in
        assembler.receive(frame) { outcome in
          guard case .message(let bytes) = outcome else { return }
          messages += 1
          longest = max(longest, bytes.count)
        }
      }
      try expect(assembler.keptBytes <= bytesMax + 256, "the assembler keeps too many bytes")
    }
    try expect(longest <= bytesMax, "a message is too long")
    try FrameCheck.check(input)
    return messages > 0
  }

  /// The WebSocket of a client. The first byte of an input is the size of the pieces in which the rest comes.
  static let webSocket = FuzzedDecoder(
    name: "web-socket",
    sources: [
      "Serving/CanopyRealtime/UnfinishedFrames.swift", "Serving/CanopyRealtime/RealtimeInput.swift",
    ]
  ) { input in
    guard let first = input.first else { return false }
    let bytes = Array(input.dropFirst())
    let whole = try WebSocketCheck.items(bytes, pieceBytes: max(1, bytes.count))
    let pieces = try WebSocketCheck.items(bytes, pieceBytes: 1 + Int(first) % 5)
    try expect(whole == pieces, "the messages depend on the pieces: \(whole), \(pieces)")
    return whole.contains { $0.utf8.starts(with: "text".utf8) }
  }
}

/// The frames of a message of the server.
private enum FrameCheck {
  /// Checks that the frames of a message that is long enough for several make the same message again.
  static func check(_ input: [UInt8]) throws {
    guard let text = String(validating: input, as: UTF8.self), !text.isEmpty else { return }
    // A decimal number alone would be a number of frames; messages are JSON.
    let unit = Array("\"\(text)\"".utf8)
    let message = Array(repeatElement(unit, count: 20_000 / unit.count + 1).joined())
    var output = JSONOutput()
    message.withUnsafeBytes { MessageFrames.append($0, to: &output) }
    try check(output.bytes, contain: message, isPadded: false)
    var stream = FrameStream(bytesMax: message.count)
    var streamed = JSONOutput()
    var rest = message[...]
    while !rest.isEmpty {
      let piece = Array(rest.prefix(7_001))
      rest = rest.dropFirst(piece.count)
      piece.withUnsafeBytes { stream.append($0, isLast: rest.isEmpty, to: &streamed) }
    }
    try check(streamed.bytes, contain: message, isPadded: true)
  }

  private static func check(
    _ frames: [UInt8], contain message: [UInt8], isPadded: Bool
  ) throws {
    var assembler = MessageAssembler(bytesMax: 1 << 20)
    var found: [UInt8] = []
    var rest = frames[...]
    while !rest.isEmpty {
      let head = Array(rest.prefix(4))
      guard head.count > 1, head[0] == 0x81 else { throw Finding(description: "a head is wrong") }
      var count = Int(head[1])
      rest = rest.dropFirst(2)
      if count == 126, head.count == 4 {
        count = Int(head[2]) << 8 | Int(head[3])
        rest = rest.dropFirst(2)
      }
      let frame = Array(rest.prefix(count))
      rest = rest.dropFirst(count)
      try expect(
        frame.count == count && String(validating: frame, as: UTF8.self) != nil,
        "a frame is not whole UTF-8")
      frame.withUnsafeBytes { frame in
        assembler.receive(frame) { outcome in
          if case .message(let bytes) = outcome { found = Array(bytes) }
        }
      }
    }
    if isPadded { found = Array(found.prefix(message.count)) }
    try expect(found == message, "the frames make another message")
  }
}

/// The handlers of a WebSocket, in a channel without a socket.
private enum WebSocketCheck {
  private static let frameBytesMax = 512

  /// Describes the items of an input that comes in pieces, up to the first error.
  static func items(_ bytes: [UInt8], pieceBytes: Int) throws -> [String] {
    let logger = Logger(label: "fuzz", factory: { _ in SwiftLogNoOpLogHandler() })
    let sink = Sink()
    let channel = EmbeddedChannel(handlers: [
      UnfinishedFrames(
        MemoryBudget(bytesMax: 1 << 24), logger, frameBytesMax: Self.frameBytesMax),
      ByteToMessageHandler(WebSocketFrameDecoder(maxFrameSize: Self.frameBytesMax)), sink,
    ])
    defer { _ = try? channel.finish(acceptAlreadyClosed: true) }
    var rest = bytes[...]
    while !rest.isEmpty, !sink.hasEnded {
      let piece = rest.prefix(pieceBytes)
      rest = rest.dropFirst(piece.count)
      do { try channel.writeInbound(ByteBuffer(bytes: piece)) } catch { break }
    }
    try expect(sink.bytesKept <= 4 * Self.frameBytesMax, "the input keeps too many bytes")
    return sink.items
  }

  /// Joins frames into messages.
  private final class Sink: ChannelInboundHandler {
    typealias InboundIn = WebSocketFrame

    private let input = RealtimeInput(bytesMax: 512)
    private(set) var items: [String] = []
    private(set) var hasEnded = false
    private(set) var bytesKept = 0

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
      guard !hasEnded else { return }
      switch input.receive(unwrapInboundIn(data)) {
      case .text(let bytes): items.append("text \(Array(bytes.readableBytesView))")
      case .ping(let bytes): items.append("ping \(Array(bytes.readableBytesView))")
      case .close: end("close")
      case .none: items.append("none")
      case .invalid(let reason): end(reason)
      }
      bytesKept = max(bytesKept, input.byteCount)
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) {
      if !hasEnded { end("error") }
    }

    private func end(_ item: String) {
      items.append(item)
      hasEnded = true
    }
  }
}
