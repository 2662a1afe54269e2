import CanopyEngine
import CanopyTesting
import CanopyTree
import CanopyWire
import NIOCore
import NIOEmbedded
import Testing

@testable import CanopyEvents
@testable import CanopyLineServer
@testable import CanopySession

/// Large replies and events, which are encoded in pieces as the client reads.
@Suite(.timeLimit(.minutes(20))) struct PieceTests {
  /// Values of every shape, among them posts.
  private static let writes: [String] = {
    let long = String(repeating: "words ", count: 60)
    let numbers = (0..<300).map { "\"k\($0)\":\(($0 * 37) % 101)" }.joined(separator: ",")
    let posts = (0..<12).map { index -> String in
      let stars = (0..<(index * 40)).map { "\"u\($0)\":true" }.joined(separator: ",")
      return "SET /posts/p\(100 + index) {\"uid\":\"u\",\"author\":\"a\",\"title\":\"\(long)\","
        + "\"body\":\"\(long)\(long)\",\"starCount\":\(index),\"tags\":[1,2],"
        + "\"stars\":{\(stars)}}"
    }
    return posts + [
      "SET /numbers {\(numbers)}", "SET /list [\"\(long)\",null,{\"a\":[1,2,\"\(long)\"]},4]",
      "SET /ranked {\"a\":{\".value\":\"\(long)\",\".priority\":2},"
        + "\"b\":{\".priority\":1,\"c\":\"\(long)\",\"d\":[1,2]},\"e\":\"\(long)\"}",
      "SET /leaf \"\(long)\(long)\"",
    ]
  }()

  private static let reads = [
    "GET /", "GET / {\"export\":true}", "GET / {\"shallow\":true}", "GET /numbers",
    "GET /numbers {\"orderBy\":\"$value\",\"limitToLast\":150}", "GET /none", "GET /leaf",
    "GET /numbers {\"orderBy\":\"$key\",\"startAt\":\"k2\",\"limitToFirst\":120}",
    "GET /ranked {\"orderBy\":\"$priority\",\"startAt\":0}", "GET /ranked {\"export\":true}",
    "GET /list", "GET /list {\"etag\":true}", "GET /numbers {\"etag\":true}",
    "COUNT /numbers {\"orderBy\":\"$value\",\"equalTo\":7}", "CAS /numbers other 1",
    "CAS /list other 1", "ONCE client 1 0 CAS /ranked other 1", "SHOW p111", "SHOW p100",
    "RECENT", "RECENT {\"limit\":3}", "TOP {\"limit\":100}", "PING",
  ]

  private static let listens = [
    "LISTEN /numbers", "LISTEN / {\"events\":\"value\"}", "LISTEN /posts {\"events\":\"sync\"}",
    "LISTEN /numbers {\"events\":\"value\",\"orderBy\":\"$value\",\"limitToLast\":100}",
    "LISTEN /ranked {\"events\":\"sync\"}", "LISTEN /ranked", "LISTEN /list {\"events\":\"value\"}",
    "LISTEN /numbers {\"events\":\"child\",\"since\":14}", "LISTEN /list {\"since\":1}",
    "LISTEN /posts {\"events\":\"child\",\"since\":1}",
    "LISTEN /numbers {\"events\":\"sync\",\"orderBy\":\"$value\",\"limitToFirst\":90,\"since\":3}",
  ]

  private static let changes = [
    "SET /numbers/k5 1000", "UPDATE / {\"list/1\":\"x\",\"numbers/k9\":null,\"ranked/b/c\":1}",
    "SET /list null", "REMOVE /posts/p105", "SET /ranked/a/.priority 9",
    "UPDATE /posts {\"p101\":null,\"p111/title\":\"t\"}", "REMOVE /numbers",
  ]

  /// Returns all lines of a server that encodes replies up to this size at once.
  private func lines(_ depth: Depth, whole bytes: Int) async throws -> [String] {
    var lines: [String] = []
    try await withServer(depth) {
      $0.limits.wholeReplyBytesMax = bytes
    } _: { server in
      let client = try await server.connectAsAdministrator()
      for line in Self.writes + Self.reads + Self.listens + Self.changes + Self.reads {
        try await client.send(line + "\nWHOAMI\n")
        var line = ""
        while line != "+{\"administrator\":true}" {
          line = try await client.readLine()
          lines.append(line)
        }
      }
      try await client.send("GET /\nQUIT\n")
      lines += try await client.readToEnd()
    }
    // The events of one commit for several subscriptions may have any order.
    return lines.sorted()
  }

  @Test(arguments: Depth.allCases)
  func `replies and events have the same bytes, encoded at once or in pieces`(_ depth: Depth)
    async throws
  {
    let whole = try await lines(depth, whole: 1_000_000)
    #expect(
      whole.contains { $0.hasPrefix("+{\"administrator\"") }, "\(whole.map { $0.prefix(200) })")
    for bytes in [1, 2_000] {
      let pieces = try await lines(depth, whole: bytes)
      #expect(pieces.count == whole.count)
      for (piece, line) in zip(pieces, whole) where piece != line {
        Issue.record("\(bytes): \(piece.prefix(300)) is not \(line.prefix(300))")
        break
      }
    }
  }

  @Test func `a list that is too large ends with a cursor, in pieces as well`()
    async throws
  {
    for whole in [1, 1_000_000] {
      try await withServer(.inProcess) {
        $0.limits.replyBytesMax = 6_000
        $0.limits.wholeReplyBytesMax = whole
      } _: { server in
        let client = try await server.connectAsAdministrator()
        for write in Self.writes.prefix(12) { try await client.value(write) }
        var seen: [String] = []
        var before = ""
        repeat {
          let page = try await client.value("RECENT {\"limit\":20\(before)}")
          guard case .array(let items) = page else {
            Issue.record("\(page)")
            return
          }
          before = ""
          for item in items {
            if let id = item["id"]?.string { seen.append(id) }
            if let id = item["before"]?.string { before = ",\"before\":\"\(id)\"" }
          }
        } while !before.isEmpty
        #expect(seen == (100..<112).reversed().map { "p\($0)" })
      }
    }
  }

  @Test(arguments: Depth.allCases)
  func `a large value that is not read takes little memory, and replies keep their order`(
    _ depth: Depth
  ) async throws {
    let part = String(repeating: "x", count: 30_000)
    try await withServer(depth) {
      $0.receiveBytes = 16_384
    } _: { server in
      let administrator = try await server.connectAsAdministrator()
      for index in 0..<200 { try await administrator.value("SET /posts/x\(index) \"\(part)\"") }
      let client = try await server.connect()
      try await client.pauseReading()
      try await client.send("WHOAMI\nGET /posts\nPING\nGET /posts {\"export\":true}\nQUIT\n")
      let memory = server.parts.operations.memory
      try await server.eventually { memory.used > 1_000_000 }
      try await administrator.expect("PING", "+\"PONG\"")
      if let client = client as? ChannelClient {
        let peaks = try await client.peaks()
        #expect(peaks.held <= 16_384 + 100_000 && peaks.write <= 100_000, "\(peaks)")
      }
      try await client.resumeReading()
      try await client.expectNext(to: "WHOAMI", "+null")
      #expect(try await client.readLine().utf8.count > 6_000_000)
      try await client.expectNext(to: "PING", "+\"PONG\"")
      #expect(try await client.readLine().utf8.count > 6_000_000)
      #expect(try await client.readToEnd() == ["+\"BYE\""])
      try await server.eventually { memory.used < 100_000 }
    }
  }

  @Test func `a client that does not read large events gets an error after a whole line`()
    async throws
  {
    let part = String(repeating: "x", count: 300_000)
    try await withServer(.inProcess) {
      $0.receiveBytes = 16_384
      $0.limits.queuedBytesMax = 1_000_000
    } _: { server in
      let administrator = try await server.connectAsAdministrator()
      for index in 0..<3 { try await administrator.value("SET /posts/x\(index) \"\(part)\"") }
      let client = try await server.connect()
      _ = try await client.begin("LISTEN /posts {\"events\":\"value\"}")
      try await client.pauseReading()
      for index in 0..<5 {
        server.parts.clock.advance(Session.idleMillisecondsMax)
        try await administrator.value("SET /posts/x0 \"\(index)\(part)\"")
      }
      try await client.resumeReading()
      var lines = try await client.readToEnd()
      let end = lines.popLast()
      let last = try #require(end)
      expectReply(last, to: "LISTEN without reading", failsWith: "OVERLOADED")
      #expect(lines.count >= 1)
      for line in lines { #expect(try Event(line).name == "value") }
    }
  }

  @Test func `an event with a long text is encoded in pieces`() throws {
    for text in ["x", "\u{1}", "é"].map({ String(repeating: $0, count: 100_000) }) {
      let change = ChildChange(kind: .changed, key: "a", node: Node(text), previous: nil)
      var expected = JSONOutput()
      EventLine.begin(3, to: &expected)
      EventLine.child(change, 7, isMore: false, to: &expected)
      let listening = Listening(.root)
      var pieces = LinePieces(
        [.child(change)], nil, 7, of: listening, in: .line, for: 3,
        bytes: ValueBytes(json: expected.count))
      var bytes: [UInt8] = []
      while !pieces.isDone {
        var output = JSONOutput()
        pieces.write(to: &output, bytes: 1_000)
        #expect(output.count <= 3_000)
        bytes += output.bytes
      }
      #expect(bytes == expected.bytes)
    }
  }

  /// A connection with a number of bytes to encode.
  private final class Sender: TurnTaker {
    private let queue: LoopTurns
    private var left: Int
    private(set) var pieces = 0

    init(_ queue: LoopTurns, left: Int, _ group: TurnGroup? = nil) {
      self.queue = queue
      self.group = group
      self.left = left
      queue.append(self)
    }

    var turnGroup: TurnGroup? { group }
    private let group: TurnGroup?

    func takeTurn(bytes: Int) -> Int {
      let count = min(bytes, left)
      left -= count
      pieces += 1
      if left > 0 { queue.append(self) }
      return count
    }
  }

  @Test
  func `a network has one turn before another one has its second, however many its connections`() {
    var next: (() -> Void)?
    let queue = LoopTurns(loop: EmbeddedEventLoop()) { next = $0 }
    let names = ["a", "a", "a", nil, "b", nil]
    let connections = names.map { _ in EmbeddedEventLoop() }
    let senders = zip(names, connections).map { name, connection in
      let group = TurnGroup(network: name, connection: ObjectIdentifier(connection))
      return Sender(queue, left: 65_536, group)
    }
    var order: [Int] = []
    while let goOn = next {
      next = nil
      goOn()
      order += senders.indices.filter { senders[$0].pieces == 1 && !order.contains($0) }
    }
    #expect(order == [0, 3, 4, 5, 1, 2])
  }

  @Test func `the loop does other work after each large piece, and connections take turns`() {
    var next: (() -> Void)?
    let queue = LoopTurns(loop: EmbeddedEventLoop()) { next = $0 }
    let senders = (0..<3).map { _ in Sender(queue, left: 2 * 65_536) }
    var pieces: [[Int]] = []
    while let goOn = next {
      next = nil
      goOn()
      pieces.append(senders.map(\.pieces))
    }
    #expect(
      pieces == [[1, 0, 0], [1, 1, 0], [1, 1, 1], [2, 1, 1], [2, 2, 1], [2, 2, 2]])
  }
}
