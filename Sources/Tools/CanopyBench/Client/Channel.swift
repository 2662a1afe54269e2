/// A connection of the client, which sends requests and receives complete replies.
final class Channel<Framer: ReplyFramer> {
  /// A complete reply. Its bytes are valid until the next receive.
  struct Reply {
    var frame: Frame
    var bytes: UnsafeRawBufferPointer

    var text: String { String(decoding: bytes, as: UTF8.self) }
  }

  let socket: TCPSocket
  /// The requests to send. Append to it, then call `flush`.
  var output: [UInt8] = []
  private var sent = 0
  private var framer = Framer()
  private var input: UnsafeMutableRawBufferPointer
  /// The first byte of the next reply, and the end of the received bytes.
  private var start = 0
  private var end = 0

  init(port: Int, capacity: Int = 64 * 1024, receiveBytes: Int32? = nil) throws {
    socket = try TCPSocket(port: port, receiveBytes: receiveBytes)
    input = .allocate(byteCount: capacity, alignment: 16)
  }

  deinit {
    input.deallocate()
  }

  /// Sends the bytes of `output` that the socket accepts.
  ///
  /// - Returns: whether all bytes are sent.
  func flush() throws -> Bool {
    while sent < output.count {
      let count = try output.withUnsafeBytes { try socket.send(.init(rebasing: $0[sent...])) }
      guard count > 0 else { return false }
      sent += count
    }
    output.removeAll(keepingCapacity: true)
    sent = 0
    return true
  }

  /// Reads once from the socket.
  func receive() throws {
    if start == end {
      start = 0
      end = 0
    } else if end == input.count {
      makeRoom()
    }
    end += try socket.receive(into: .init(rebasing: input[end...]))
  }

  /// Reads once from a socket that has a longest time.
  ///
  /// - Throws: `BenchFailure` if nothing arrives in this time.
  func receiveOrFail() throws {
    let before = end - start
    try receive()
    guard end - start > before else { throw BenchFailure("no reply in time") }
  }

  /// Moves the received bytes to the start of the buffer, or to a larger buffer if they are at the start.
  private func makeRoom() {
    let rest = UnsafeRawBufferPointer(rebasing: input[start..<end])
    if start > 0 {
      // The source and the destination may overlap, which `memmove` allows.
      input.copyMemory(from: rest)
    } else {
      let larger = UnsafeMutableRawBufferPointer.allocate(
        byteCount: 2 * input.count, alignment: 16)
      larger.copyMemory(from: rest)
      input.deallocate()
      input = larger
    }
    end -= start
    start = 0
  }

  /// Returns the next complete reply; nil if none has arrived.
  func nextReply() throws -> Reply? {
    guard start < end else { return nil }
    let bytes = UnsafeRawBufferPointer(rebasing: input[start..<end])
    guard let frame = try framer.next(in: bytes) else { return nil }
    start += frame.count
    return Reply(frame: frame, bytes: .init(rebasing: bytes[..<frame.count]))
  }

  /// Sends a request, and waits for its reply. Precondition: no `stopWaiting` yet, and no other request under way.
  func exchange(_ request: [UInt8]) throws -> Reply {
    output += request
    _ = try flush()
    return try awaitReply()
  }

  /// Waits for a reply. Precondition: no `stopWaiting` yet.
  func awaitReply() throws -> Reply {
    while true {
      if let reply = try nextReply() { return reply }
      try receive()
    }
  }
}
