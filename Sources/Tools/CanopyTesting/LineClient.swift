public import CanopyTree

/// A client's end of one connection, whatever the connection is made of.
public protocol LineClient: Sendable {
  /// What the server has sent.
  var mailbox: LineMailbox { get }

  /// Sends bytes as they are; returns when the server's side has taken them.
  func send(_ bytes: [UInt8]) async throws

  /// Ends the sending side; replies can still be read.
  func shutDownSending() async throws

  /// Leaves what the server sends where it is.
  func pauseReading() async throws

  /// Reads again.
  func resumeReading() async throws

  /// Breaks the connection off, without a word.
  func disconnect() async
}

/// What a client did not expect.
public enum LineClientError: Error, Equatable {
  /// The server has closed.
  case closed
  /// A reply that is a failure, where success was expected.
  case refused(request: String, reply: String)
  /// A reply that is a success, where failure was expected.
  case accepted(request: String, reply: String)
  /// A line where the server should have closed.
  case unexpected(String)
}

extension LineClient {
  /// Sends text as it is.
  public func send(_ text: String) async throws {
    try await send(Array(text.utf8))
  }

  /// The next line of the server, without its end.
  public func readLine() async throws -> String {
    guard let line = try await mailbox.next() else { throw LineClientError.closed }
    return line
  }

  /// The next so many lines.
  public func readLines(_ count: Int) async throws -> [String] {
    var lines: [String] = []
    for _ in 0..<count { lines.append(try await readLine()) }
    return lines
  }

  /// All lines until the server closes.
  public func readToEnd() async throws -> [String] {
    var lines: [String] = []
    while let line = try await mailbox.next() { lines.append(line) }
    return lines
  }

  /// Returns when the server has closed; a line before that is an error.
  public func expectClosed() async throws {
    if let line = try await mailbox.next() { throw LineClientError.unexpected(line) }
  }

  /// Sends one request and reads one line.
  public func request(_ line: String) async throws -> String {
    try await send(line + "\n")
    return try await readLine()
  }

  /// The value of a reply that is a success.
  @discardableResult
  public func value(_ line: String) async throws -> JSONValue {
    let reply = try await request(line)
    guard reply.first == "+" else {
      throw LineClientError.refused(request: line, reply: reply)
    }
    return try JSONValue(json: String(reply.dropFirst()))
  }

  /// The code of a reply that is a failure.
  public func code(_ line: String) async throws -> String {
    try await refusal(line).code
  }

  /// The code and the sentence of a reply that is a failure.
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

  /// The text at a name in the reply to a request.
  public func text(_ name: String, _ line: String) async throws -> String {
    let value = try await value(line)
    guard let text = value[name]?.string else {
      throw LineClientError.unexpected("no text \(name) in \(value)")
    }
    return text
  }
}

extension JSONValue {
  /// The integer, if this is one.
  public var integer: Int64? {
    if case .leaf(let node) = self { node.integerValue } else { nil }
  }

  /// The names of the members, if this is an object.
  public var names: [String]? {
    if case .object(let members) = self { members.map(\.name) } else { nil }
  }
}
