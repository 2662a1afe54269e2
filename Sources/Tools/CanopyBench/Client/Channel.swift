/// One connection of the client: requests out, whole replies in.
final class Channel<Framer: ReplyFramer> {
  /// A whole reply. Its bytes are valid until something is received.
  struct Reply {
    var frame: Frame
    var bytes: UnsafeRawBufferPointer

    var text: String { String(decoding: bytes, as: UTF8.self) }
  }

  let socket: TCPSocket
  /// Requests that are to be sent; add to it, then `flush`.
  var output: [UInt8] = []
  private var sent = 0
  private var framer = Framer()
  private var input: UnsafeMutableRawBufferPointer
  /// The first byte of the reply that comes next, and the end of what has arrived.
  private var start = 0
  private var end = 0

  init(port: Int, capacity: Int = 64 * 1024, receiveBytes: Int32? = nil) throws {
    socket = try TCPSocket(port: port, receiveBytes: receiveBytes)
    input = .allocate(byteCount: capacity, alignment: 16)
  }

  deinit {
    input.deallocate()
  }

  /// Sends what is in `output`, as far as there is room.
  ///
  /// - Returns: whether all is sent.
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

  /// Moves what has arrived to the front, or to a larger buffer if it is in the front.
  private func makeRoom() {
    let rest = UnsafeRawBufferPointer(rebasing: input[start..<end])
    if start > 0 {
      // The two may overlap, which is allowed here.
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

  /// The next whole reply that has arrived.
  func nextReply() throws -> Reply? {
    guard start < end else { return nil }
    let bytes = UnsafeRawBufferPointer(rebasing: input[start..<end])
    guard let frame = try framer.next(in: bytes) else { return nil }
    start += frame.count
    return Reply(frame: frame, bytes: .init(rebasing: bytes[..<frame.count]))
  }

  /// Sends a request and waits for its reply: before `stopWaiting`, and with nothing else under way.
  func exchange(_ request: [UInt8]) throws -> Reply {
    output += request
    _ = try flush()
    return try awaitReply()
  }

  /// Waits for a reply, before `stopWaiting`.
  func awaitReply() throws -> Reply {
    while true {
      if let reply = try nextReply() { return reply }
      try receive()
    }
  }
}
