import CanopyRealtimeWire
import CanopyTree
import NIOCore
import NIOEmbedded
import NIOWebSocket
import Synchronization
import Testing

@testable import CanopyClient

/// Messages in frames, and their bounds.
@Suite struct RealtimeTransportTests {
  /// The handler of a WebSocket without a socket.
  private final class Socket: Sendable {
    private let events = Mutex<[TransportEvent]>([])

    func add(_ event: TransportEvent) { events.withLock { $0.append(event) } }

    /// The reason of the end; nil if the connection is open.
    var reason: String? {
      events.withLock {
        guard case .closed(let reason)? = $0.last else { return nil }
        return reason
      }
    }

    /// The values that were received.
    var values: [Node] {
      events.withLock { events in
        events.flatMap { event -> [Node] in
          guard case .receivedMessages(let messages) = event else { return [] }
          return messages.compactMap { message in
            guard case .changed(_, _, let puts) = message else { return nil }
            return puts.first?.value
          }
        }
      }
    }

    /// Whether the connection was opened before anything else.
    var isOpened: Bool {
      events.withLock {
        guard case .opened? = $0.first else { return false }
        return true
      }
    }
  }

  private func connect(bytesMax: Int) throws -> (Socket, EmbeddedChannel) {
    let socket = Socket()
    let channel = EmbeddedChannel()
    try channel.pipeline.syncOperations.addHandler(
      MessageHandler(messageBytesMax: bytesMax) { socket.add($0) })
    try channel.connect(to: SocketAddress(ipAddress: "192.0.2.1", port: 1)).wait()
    return (socket, channel)
  }

  private func receive(
    _ channel: EmbeddedChannel, _ text: String, fin: Bool = true, _ opcode: WebSocketOpcode = .text
  ) throws {
    try channel.writeInbound(
      WebSocketFrame(fin: fin, opcode: opcode, data: ByteBuffer(string: text)))
    channel.embeddedEventLoop.run()
  }

  private let put = #"{"t":"d","d":{"a":"d","b":{"p":"a","d":"x"}}}"#

  @Test func `a message comes in one frame, in several, or in fragments`() throws {
    let (socket, channel) = try connect(bytesMax: put.utf8.count)
    #expect(socket.isOpened)
    try receive(channel, put)
    try receive(channel, "0")
    try receive(channel, "2")
    try receive(channel, String(put.prefix(20)))
    try receive(channel, String(put.dropFirst(20)))
    try receive(channel, String(put.prefix(20)), fin: false)
    try receive(channel, String(put.dropFirst(20)), .continuation)
    #expect(socket.values == ["x", "x", "x"] && socket.reason == nil)
  }

  @Test(arguments: [
    ["{"], ["[]"], [#"{"t":"x","d":{}}"#], [#"{"t":"d","d":{"a":"d","b":{"p":"a.b","d":1}}}"#],
    [#"{"t":"d","d":{"a":"d","b":{"p":"a","d":{"b.c":1}}}}"#], ["999999"],
    [String(repeating: " ", count: 101)],
    ["2", String(repeating: " ", count: 60), String(repeating: " ", count: 60)],
  ])
  func `a message that is too large or malformed ends the connection with a reason`(
    _ frames: [String]
  ) throws {
    let (socket, channel) = try connect(bytesMax: 100)
    for frame in frames { try receive(channel, frame) }
    #expect(socket.reason?.hasPrefix("the server ") == true)
    #expect(!channel.isActive && socket.values.isEmpty)
  }

  @Test func `fragments without end are bounded`() throws {
    let (socket, channel) = try connect(bytesMax: 100)
    for _ in 0..<10 { try receive(channel, String(repeating: " ", count: 10), fin: false) }
    #expect(socket.reason == nil)
    try receive(channel, " ", fin: false, .continuation)
    #expect(socket.reason == "the server sent a message of more than 100 bytes")
  }

  @Test func `a ping is answered, and an end is confirmed`() throws {
    let (socket, channel) = try connect(bytesMax: 100)
    try receive(channel, "hello", .ping)
    let pong = try channel.readOutbound(as: WebSocketFrame.self)
    #expect(pong?.opcode == .pong && pong.map { String(buffer: $0.data) } == "hello")
    try receive(channel, "", .connectionClose)
    #expect(try channel.readOutbound(as: WebSocketFrame.self)?.opcode == .connectionClose)
    #expect(socket.reason == "the connection was closed")
  }

  @Test func `a long message is sent in masked frames after their number`() throws {
    let (_, channel) = try connect(bytesMax: 100)
    let long = "\"" + String(repeating: "é", count: 20_000) + "\""
    try channel.writeOutbound(ByteBuffer(string: "[1]\n\(long)\n"))
    var texts: [String] = []
    while let frame = try channel.readOutbound(as: WebSocketFrame.self) {
      #expect(frame.maskKey != nil && frame.fin && frame.opcode == .text)
      #expect(frame.data.readableBytes <= MessageFrames.charactersMax)
      texts.append(String(buffer: frame.data))
    }
    #expect(texts.prefix(2) == ["[1]", "3"])
    #expect(texts.dropFirst(2).joined() == long)
  }

  // MARK: Requests and listeners

  @Test
  func `answers are taken in the order of the requests, and one that nobody awaits is an error`() {
    var link = RealtimeLink()
    let numbers = (0..<3).map { _ in link.nextNumber() }
    for number in numbers { link.expect(number) }
    func answer(_ status: String) -> RealtimeLink.Answer { .init(status: status, data: []) }
    let taken = [2, 2, 0, 1, 1].map { index in
      link.take(answer("\(index)"), to: numbers[index])?.map(\.status)
    }
    #expect(taken == [[], nil, ["0"], ["1", "2"], nil])
    let next = link.nextNumber()
    #expect(next == numbers[2] + 1)
  }

  @Test func `the client filters a query for which the server has no index`() throws {
    var link = RealtimeLink()
    let query = try Query(options: try JSONValue(json: #"{"orderBy":"n","limitToFirst":1}"#))
    let tag = ListenTag(number: 7)
    let path = try Path("list")
    link.begin(tag, QuerySpec(path, query))
    let all = json(#"{"a":{"n":1},"b":{"n":2}}"#)
    let first = link.take([Assignment(path, all)], at: path, tag: 7)
    #expect(first?.1.map(\.value) == [all])
    link.answered(tag, isUnindexed: true, known: nil)
    // The first child leaves the window, and the second, which the query had not shown, enters it.
    let change = Assignment(try Path("list/a/n"), 3)
    let second = link.take([change], at: path, tag: 7)
    #expect(second?.0 == tag && second?.isPatch == false)
    #expect(second?.1.map(\.value) == [json(#"{"b":{"n":2}}"#)])
    _ = link.end(tag)
    let late = link.take([change], at: path, tag: 7)
    #expect(late == nil)
  }

  @Test func `a change without a tag belongs to the listener of the location above it`() throws {
    var link = RealtimeLink()
    let (wide, narrow) = (ListenTag(number: 1), ListenTag(number: 2))
    link.begin(wide, QuerySpec(try Path("a")))
    link.begin(narrow, QuerySpec(try Path("a/b")))
    func take(_ text: String) throws -> Int? {
      let path = try Path(text)
      return link.take([Assignment(path, 1)], at: path, tag: nil)?.0.number
    }
    let taken = try ["a", "a/c", "a/b/c", "b"].map { try take($0) }
    #expect(taken == [1, 1, 2, nil])
    #expect(link.listener(at: try Path("a/b"), nil) == narrow)
    #expect(link.listener(at: try Path("b"), nil) == nil)
  }

  @Test(arguments: ["a", "a/b", "a/b/c"])
  func `late messages of a listener that ends do not belong to one that begins`(
    _ begins: String
  ) throws {
    var link = RealtimeLink()
    let (former, next) = (ListenTag(number: 1), ListenTag(number: 2))
    let (old, new) = (try Path("a/b"), try Path(begins))
    func request() -> Int64 {
      let number = link.nextNumber()
      link.expect(number)
      return number
    }
    func taken() throws -> ListenTag? {
      let path = try Path("a/b/c/d")
      return link.take([Assignment(path, 1)], at: path, tag: nil)?.0
    }
    let answer = RealtimeLink.Answer(status: "ok", data: [])
    link.begin(former, QuerySpec(old))
    let (beginning, ending) = (request(), request())
    _ = link.take(answer, to: beginning)
    let ended = link.end(former)
    #expect(ended == QuerySpec(old))
    link.expectEnd(of: QuerySpec(old))
    link.begin(next, QuerySpec(new))
    let early = try taken()
    #expect(early == nil && link.listener(at: new, nil) == nil)
    // Another listener is not concerned.
    link.begin(ListenTag(number: 3), QuerySpec(try Path("other")))
    #expect(link.listener(at: try Path("other"), nil) == ListenTag(number: 3))
    _ = link.take(answer, to: ending)
    let later = try taken()
    #expect(later == next && link.listener(at: new, nil) == next)
  }

  // MARK: Identity

  @Test func `a refresh token is kept apart from a token of the database`() {
    for credential in [RealtimeCredential.token("t"), .refresh("r"), .refresh("refresh r")] {
      #expect(RealtimeCredential(credential.text) == credential)
    }
  }

  @Test(arguments: [
    ("EMAIL_EXISTS", AuthError.Code.emailAlreadyInUse),
    ("WEAK_PASSWORD : too short", .weakPassword), ("INVALID_LOGIN_CREDENTIALS", .wrongPassword),
    ("USER_DISABLED", .userDisabled), ("INVALID_EMAIL", .invalidEmail),
    ("TOKEN_EXPIRED", .userTokenExpired), ("INVALID_REFRESH_TOKEN", .invalidToken),
    ("USER_NOT_FOUND", .userNotFound), ("CREDENTIAL_TOO_OLD_LOGIN_AGAIN", .requiresRecentLogin),
    ("INVALID_CUSTOM_TOKEN", .invalidCustomToken), ("MISSING_EMAIL", .missingEmail),
    ("EXPIRED_OOB_CODE", .expiredActionCode), ("INVALID_OOB_CODE", .invalidActionCode),
    ("OPERATION_NOT_ALLOWED", .operationNotAllowed), ("INVALID_WORD", .invalidArgument),
    ("TOO_MANY_ATTEMPTS_TRY_LATER", .tooManyRequests),
    ("SOMETHING", .internalError), ("", .internalError),
  ])
  func `a word of the identity requests is a code`(_ message: String, _ code: AuthError.Code) {
    let error = AuthError(identityMessage: message)
    #expect(error.code == code && !error.sentence.isEmpty)
  }
}
