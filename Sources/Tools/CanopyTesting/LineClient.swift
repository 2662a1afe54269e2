public import CanopyTree

/// A client's end of a connection, over a socket or in the process.
public protocol LineClient: Sendable {
  /// The lines that the server sent.
  var mailbox: LineMailbox { get }

  /// Sends bytes unchanged, and returns when the server's side has accepted them.
  func send(_ bytes: [UInt8]) async throws

  /// Ends the sending side; replies can still be read.
  func shutDownSending() async throws

  /// Stops reading.
  func pauseReading() async throws

  /// Reads again.
  func resumeReading() async throws

  /// Aborts the connection.
  func disconnect() async
}

/// A reply or an end of the connection that a client did not expect.
public enum LineClientError: Error, Equatable {
  /// The server closed the connection.
  case closed
  /// The reply is a failure instead of a success.
  case refused(request: String, reply: String)
  /// The reply is a success instead of a failure.
  case accepted(request: String, reply: String)
  /// The server sent a line instead of closing the connection.
  case unexpected(String)
}

extension LineClient {
  /// Sends text unchanged.
  public func send(_ text: String) async throws {
    try await send(Array(text.utf8))
  }

  /// Returns the next line of the server without its line end.
  public func readLine() async throws -> String {
    guard let line = try await mailbox.next() else { throw LineClientError.closed }
    return line
  }

  /// Returns the next `count` lines.
  public func readLines(_ count: Int) async throws -> [String] {
    var lines: [String] = []
    for _ in 0..<count { lines.append(try await readLine()) }
    return lines
  }

  /// Returns all lines until the server closes the connection.
  public func readToEnd() async throws -> [String] {
    var lines: [String] = []
    while let line = try await mailbox.next() { lines.append(line) }
    return lines
  }

  /// Waits until the server closes the connection. A line before that is an error.
  public func expectClosed() async throws {
    if let line = try await mailbox.next() { throw LineClientError.unexpected(line) }
  }

  /// Sends one request and reads one line.
  public func request(_ line: String) async throws -> String {
    try await send(line + "\n")
    return try await readLine()
  }

  /// Sends a request, and returns the value of its successful reply.
  @discardableResult
  public func value(_ line: String) async throws -> JSONValue {
    let reply = try await request(line)
    guard reply.first == "+" else {
      throw LineClientError.refused(request: line, reply: reply)
    }
    return try JSONValue(json: String(reply.dropFirst()))
  }

  /// Sends a request, and returns the code of its failure.
  public func code(_ line: String) async throws -> String {
    try await refusal(line).code
  }

  /// Sends a request, and returns the code and the sentence of its failure.
  public func refusal(_ line: String) async throws -> (code: String, sentence: String) {
    let reply = try await request(line)
    guard reply.first == "-", let space = reply.firstIndex(of: " ") else {
      throw LineClientError.accepted(request: line, reply: reply)
    }
    return (
      String(reply[reply.index(after: reply.startIndex)..<space]),
      String(reply[reply.index(after: space)...])
    )
  }

  /// Sends a request, and returns a text member of its reply.
  public func text(_ name: String, _ line: String) async throws -> String {
    let value = try await value(line)
    guard let text = value[name]?.string else {
      throw LineClientError.unexpected("no text \(name) in \(value)")
    }
    return text
  }
}

extension JSONValue {
  /// The value as an integer; nil if it is not one.
  public var integer: Int64? {
    if case .leaf(let node) = self { node.integerValue } else { nil }
  }

  /// The names of the members; nil if the value is not an object.
  public var names: [String]? {
    if case .object(let members) = self { members.map(\.name) } else { nil }
  }
}
