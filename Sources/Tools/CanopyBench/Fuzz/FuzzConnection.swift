import CanopyTree
import Foundation

/// The bytes of one connection of a fuzzer, and the end of the connection.
struct FuzzScript {
  /// The end of a connection by the client.
  enum Ending {
    /// The client sends no more, and reads until the server closes.
    case halfClose
    /// The client closes at once.
    case close
    /// The client resets the connection.
    case reset
  }

  var bytes: [UInt8] = []
  /// The requests, frames and messages in the bytes.
  var requests = 0
  var ending = Ending.halfClose
  /// The actions of the requests of the realtime protocol, by their numbers.
  var actions: [Int: String] = [:]
  /// The bytes of each send; 0 for all at once.
  var pieceBytes = 0

  /// Creates the script of a connection.
  ///
  /// - Parameters:
  ///   - seed: the seed of the run and the number of the connection determine the script.
  ///   - requests: the number of requests or messages before the last, which ends the connection.
  init(seed: UInt64, connection: Int, requests: Int, token: String) {
    var text = FuzzText(
      seed: seed &+ UInt64(truncatingIfNeeded: connection) &* 0x9E37_79B9_7F4A_7C15, token: token)
    switch text.below(10) {
    case 0..<5:
      for _ in 0..<requests { bytes += text.request() }
      bytes += text.lastRequest()
    case 5..<9:
      bytes = text.handshake(text.oneIn(8) ? "/.ws?v=5&\(text.junk(8))" : "/.ws?v=5&ns=default")
      var conversation = FuzzConversation()
      for number in 0..<requests {
        // Most messages are requests that the server decodes and carries out.
        bytes += text.frames(
          text.oneIn(40) ? text.message(number) : conversation.message(number, &text))
        if text.oneIn(300) { bytes += text.wrongFrames() }
      }
      actions = conversation.sent
      bytes += text.lastFrame()
    default:
      bytes = text.handshake("/line")
      for _ in 0..<requests { bytes += text.frame(0x81, text.line()) }
      bytes += text.lastFrame()
    }
    self.requests = requests + 1
    ending = [.halfClose, .halfClose, .halfClose, .halfClose, .close, .reset][text.below(6)]
    if text.oneIn(20) { pieceBytes = 1 + text.below(60) }
    // A client that sends in small pieces sends little, because each piece is a call.
    if pieceBytes > 0 { bytes = Array(bytes.prefix(6000)) }
    if text.oneIn(10) { bytes.removeLast(min(bytes.count, text.below(40))) }
  }
}

/// Sends a script, and reads all that the server answers.
struct FuzzConnection {
  /// The result of a connection.
  struct Outcome {
    /// Whether the server has closed the connection after the client sent no more.
    var isClosed = true
    /// The answers to requests of the realtime protocol.
    var depth = FuzzAnswers.Depth()
    /// A sign of an error in the server, in its answers.
    var complaint: String?
  }

  /// The seconds for which a client waits for the server to close.
  static let secondsMax = 5.0
  /// Texts that the server sends only if it has made a mistake.
  private static let complaints = ["the server made a mistake", "HTTP/1.1 500 "]

  private let socket: TCPSocket
  /// The last bytes of the server.
  private var answers: [UInt8] = []
  private var replies = FuzzAnswers([:])

  init(port: Int) throws {
    socket = try TCPSocket(port: port)
    socket.stopWaiting()
  }

  mutating func run(_ script: FuzzScript) -> Outcome {
    var outcome = Outcome()
    replies = FuzzAnswers(script.actions)
    var sent = 0
    let end = monotonicNanoseconds() + Int64(Self.secondsMax * 1e9)
    while sent < script.bytes.count {
      let last =
        script.pieceBytes > 0
        ? min(sent + script.pieceBytes, script.bytes.count) : script.bytes.count
      let count = script.bytes[sent..<last].withUnsafeBytes {
        send(socket.descriptor, $0.baseAddress, $0.count, Int32(MSG_NOSIGNAL))
      }
      if count > 0 {
        sent += count
      } else if count == 0 || errno != EAGAIN && errno != EINTR {
        break
      } else {
        wait(POLLIN | POLLOUT)
      }
      guard read(&outcome), monotonicNanoseconds() < end else { break }
    }
    switch script.ending {
    case .halfClose:
      shutdown(socket.descriptor, Int32(SHUT_WR))
      while read(&outcome) {
        guard monotonicNanoseconds() < end else {
          outcome.isClosed = false
          break
        }
        wait(POLLIN)
      }
    case .close: break
    case .reset:
      var option = linger(l_onoff: 1, l_linger: 0)
      setsockopt(
        socket.descriptor, SOL_SOCKET, SO_LINGER, &option, socklen_t(MemoryLayout<linger>.size))
    }
    outcome.depth = replies.depth
    return outcome
  }

  /// Reads the bytes that have arrived. Returns false if the connection has ended.
  private mutating func read(_ outcome: inout Outcome) -> Bool {
    while true {
      let count = withUnsafeTemporaryAllocation(byteCount: 64 * 1024, alignment: 1) { buffer in
        let count = recv(socket.descriptor, buffer.baseAddress, buffer.count, 0)
        if count > 0 {
          answers += buffer.prefix(count)
          replies.receive(buffer.prefix(count))
        }
        return count
      }
      guard count > 0 else { return count < 0 && (errno == EAGAIN || errno == EINTR) }
      answers.withUnsafeBytes { bytes in
        for complaint in Self.complaints where outcome.complaint == nil {
          if bytes.contains(complaint) {
            outcome.complaint = String(decoding: bytes.suffix(600), as: UTF8.self)
          }
        }
      }
      // A complaint may be divided between two reads.
      answers = Array(answers.suffix(32))
    }
  }

  private func wait(_ events: Int32) {
    var descriptor = pollfd(fd: socket.descriptor, events: Int16(events), revents: 0)
    poll(&descriptor, 1, 100)
  }
}
