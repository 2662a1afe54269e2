import CanopyTree
import Foundation

/// A client that uses a server as it is meant, over REST, the line protocol and a WebSocket, beside a fuzzer.
final class HonestClient {
  private let rest: Channel<HTTPFramer>
  private let line: LineSocket
  private let socket: Channel<WebSocketFramer>
  private let field: String
  private(set) var rounds = 0
  /// The longest time of a round.
  private(set) var worstMilliseconds = 0.0
  private static let path = "honest"

  /// - Parameters:
  ///   - token: the token of the administrator.
  ///   - secondsMax: the seconds after which an answer counts as missing.
  init(_ server: Server, token: String, secondsMax: Int) throws {
    guard let port = server.httpPort else { throw BenchFailure("the server has no HTTP port") }
    rest = try Channel(port: port)
    line = try LineSocket(port: server.port, secondsMax: secondsMax)
    socket = try Channel(port: port)
    field = "Authorization: Bearer \(token)\r\n"
    for channel in [rest.socket, socket.socket] { channel.waitAtMost(seconds: secondsMax) }
    _ = try line.success("AUTH \(token)")
    _ = try line.success("SET /\(Self.path) 0")
    let listen = WebSocketBytes.request(2, "q", #"{"p":"/\#(Self.path)","h":""}"#)
    for request in [WebSocketBytes.upgrade, WebSocketBytes.logIn(token)] {
      let reply = try exchange(socket, request)
      guard !reply.isError else { throw BenchFailure("honest WebSocket: \(reply.text)") }
    }
    _ = try exchange(socket, listen) { $0.contains(#""r":2"#) }
  }

  /// Writes a value in one way, reads it in the others, and checks that the listener gets it.
  func round() throws {
    rounds += 1
    let started = monotonicNanoseconds()
    let value = "\(rounds)"
    let body = "Content-Length: \(value.utf8.count)\r\n\r\n\(value)"
    let put = try request("PUT", field + body)
    guard put.hasSuffix("\r\n\r\n" + value) else { throw BenchFailure("PUT: \(put)") }
    _ = try exchange(socket, []) { $0.contains("\"d\":\(value)}") }
    let get = try request("GET", field + "\r\n")
    guard get.hasSuffix("\r\n\r\n" + value) else { throw BenchFailure("GET: \(get)") }
    guard case .leaf(let leaf) = try line.success("GET /\(Self.path)"),
      leaf.integerValue == Int64(rounds)
    else { throw BenchFailure("the line protocol gave another value") }
    worstMilliseconds = max(worstMilliseconds, Double(monotonicNanoseconds() - started) / 1e6)
  }

  /// Returns the sums of the samples of each metric of the server.
  func metrics() throws -> [String: Int] {
    let reply = try exchange(
      rest, Array("GET /metrics HTTP/1.1\r\nHost: localhost\r\n\(field)\r\n".utf8))
    guard !reply.isError else { throw BenchFailure("metrics: \(reply.text)") }
    var sums: [String: Int] = [:]
    for line in reply.text.split(separator: "\n") {
      guard let name = line.firstIndex(where: { $0 == "{" || $0 == " " }),
        let value = line.split(separator: " ").last.flatMap({ Double($0) }), value < 1e15
      else { continue }
      sums[String(line[..<name]), default: 0] += Int(value)
    }
    return sums
  }

  /// Sends a request, and returns the text of its response.
  private func request(_ method: String, _ rest: String) throws -> String {
    let head = "\(method) /\(Self.path).json HTTP/1.1\r\nHost: localhost\r\n"
    let reply = try exchange(self.rest, Array((head + rest).utf8))
    guard !reply.isError else { throw BenchFailure("\(method): \(reply.text)") }
    return reply.text
  }

  /// Sends bytes, and returns the first reply for which a condition holds.
  private func exchange<F: ReplyFramer>(
    _ channel: Channel<F>, _ request: [UInt8], until isAwaited: (String) -> Bool = { _ in true }
  ) throws -> (text: String, isError: Bool) {
    channel.output += request
    _ = try channel.flush()
    while true {
      while let reply = try channel.nextReply() {
        let text = reply.text
        if reply.frame.isError || isAwaited(text) { return (text, reply.frame.isError) }
      }
      try channel.receiveOrFail()
    }
  }
}
