import CanopyTesting
import Foundation
import Testing

/// The event stream of the article about HTTP, read as a browser reads it.
@Suite(.timeLimit(.minutes(20))) struct EventSourceTests {
  /// The address and the names of events in the example of the article.
  private static func example() throws -> (address: String, names: Set<String>) {
    let blocks = try Document.article("HTTP").blocks.filter { $0.language == "js" }
    let text = try #require(blocks.first).lines.joined(separator: "\n")
    let address = try #require(text.firstMatch(of: /new EventSource\("([^"]+)"\)/)).1
    let names = text.matches(of: /addEventListener\("([a-z_]+)"/).map { String($0.1) }
    return (String(address), Set(names))
  }

  @Test func `the example of the article gets the posts, and then each change`() async throws {
    let (address, names) = try Self.example()
    let folder = try TemporaryFolder()
    let data = folder.file("data")
    let seed = try await Program.run(
      Program.canopy,
      ["seed", "--data", data, Repository.root.appending(path: SeedTests.path).path])
    try #require(seed.status == 0, "\(seed.errors)")
    let server = try await RunningServer(data: data, hasHTTP: true)
    let target = try #require(address.firstMatch(of: /^http:\/\/127\.0\.0\.1:9000(\/.*)$/)).1
    let token = try String(contentsOfFile: data + "/admin-token", encoding: .utf8)
      .trimmingCharacters(in: .whitespacesAndNewlines)
    try await blocking {
      let line = try LineConnection(to: server)
      func request(_ text: String) throws {
        try line.send(text)
        let reply = try #require(try line.receive())
        #expect(reply.hasPrefix("+"), "\(text)")
      }
      try request("AUTH \(token)")
      let source = try EventSource(server, String(target))

      let first = try source.next()
      #expect(first.name == "put" && first.path == "/")
      let posts = try #require(first.data as? [String: Any])
      #expect(posts.count == 10)
      let keys = posts.keys.sorted().suffix(2)
      let key = try #require(keys.last)

      // A stream of a query has each changed child as a whole.
      try request("SET /posts/\(key)/title \"Ligne \\\"é\\\" \\r\\n data: x\"")
      let put = try source.next()
      #expect(put.name == "put" && put.path == "/\(key)")
      #expect((put.data as? [String: Any])?["title"] as? String == "Ligne \"é\" \r\n data: x")

      let titles = keys.map { "\"\($0)/title\":\"\($0)\"" }.joined(separator: ",")
      try request("UPDATE /posts {\(titles)}")
      let patch = try source.next()
      #expect(patch.name == "patch" && patch.path == "/")
      let changed = try #require(patch.data as? [String: [String: Any]])
      #expect(changed.keys.sorted() == Array(keys))
      #expect(changed.allSatisfy { $1["title"] as? String == $0 })
      #expect(names.isSuperset(of: [first.name, put.name, patch.name]))
    }
    #expect(try await server.stop() == 0)
  }

  @Test func `an event stream is parsed as the standard says`() {
    var parser = EventSource.Parser()
    let text =
      "\u{FEFF}: a comment\ndata\ndata\n\nevent: put\rdata: 1\r\ndata:2\r\rdata:  x:y\nid: 7\nother\n\n"
      + "event: lost\n\ndata: unfinished"
    var events: [EventSource.Parser.Event] = []
    for byte in text.utf8 { parser.receive([byte]) { events.append($0) } }
    #expect(
      events == [
        .init(name: "message", data: "\n"), .init(name: "put", data: "1\n2"),
        .init(name: "message", data: " x:y"),
      ])
    var whole: [EventSource.Parser.Event] = []
    parser = EventSource.Parser()
    parser.receive(Array(text.utf8)) { whole.append($0) }
    #expect(whole == events)
  }
}

/// A client of an event stream that follows the HTML standard, as `EventSource` of browsers does.
private final class EventSource {
  /// An event of Canopy: a path and the data at the path.
  struct Change {
    var name: String
    var path: String
    var data: Any
  }

  private let connection: LineConnection
  private var parser = Parser()
  private var events: [Parser.Event] = []

  init(_ server: RunningServer, _ target: String) throws {
    let port: UInt16 = try #require(server.httpPort)
    connection = try LineConnection(to: server, port: port)
    try connection.send(
      "GET \(target) HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\n"
        + "Cache-Control: no-store\r")
    try connection.send("\r")
    var head: [String] = []
    while let line = try connection.receive(), !line.isEmpty { head.append(line.lowercased()) }
    #expect(head.first == "http/1.1 200 ok")
    // A reader ignores the parameters of the type, such as the character set.
    let type = try #require(head.first { $0.hasPrefix("content-type: ") })
    #expect(
      type == "content-type: text/event-stream"
        || type.hasPrefix("content-type: text/event-stream;"))
    try #require(head.contains("transfer-encoding: chunked"))
  }

  /// Returns the next event other than `keep-alive`.
  func next() throws -> Change {
    while true {
      while let event = events.first {
        events.removeFirst()
        let json = try JSONSerialization.jsonObject(
          with: Data(event.data.utf8), options: .fragmentsAllowed)
        guard event.name != "keep-alive" else { continue }
        let members = try #require(json as? [String: Any])
        let path = try #require(members["path"] as? String)
        return Change(name: event.name, path: path, data: try #require(members["data"]))
      }
      let line = try #require(try connection.receive())
      let size = try #require(Int(line, radix: 16))
      try #require(size > 0, "the stream has ended")
      let chunk = try #require(try connection.receive(size))
      parser.receive(chunk) { events.append($0) }
      _ = try connection.receive()
    }
  }

  /// The parser of event streams: lines end with CR LF, LF or CR, and an empty line ends an event.
  struct Parser {
    struct Event: Equatable {
      var name: String
      var data: String
    }

    private var line: [UInt8] = []
    private var isFirstLine = true
    private var followsReturn = false
    private var name = ""
    private var data = ""

    mutating func receive(_ bytes: [UInt8], _ dispatch: (Event) -> Void) {
      for byte in bytes {
        defer { followsReturn = byte == 0x0D }
        switch byte {
        case 0x0A where followsReturn: continue
        case 0x0A, 0x0D: endLine(dispatch)
        default: line.append(byte)
        }
      }
    }

    private mutating func endLine(_ dispatch: (Event) -> Void) {
      if isFirstLine, line.starts(with: [0xEF, 0xBB, 0xBF]) { line.removeFirst(3) }
      isFirstLine = false
      let bytes = line
      line = []
      guard !bytes.isEmpty else {
        // An event without data is not dispatched.
        if !data.isEmpty {
          dispatch(Event(name: name.isEmpty ? "message" : name, data: String(data.dropLast())))
        }
        (name, data) = ("", "")
        return
      }
      let field = bytes.prefix { $0 != UInt8(ascii: ":") }
      var value = bytes.dropFirst(field.count + 1)
      if value.first == 0x20 { value = value.dropFirst() }
      switch String(decoding: field, as: UTF8.self) {
      case "event": name = String(decoding: value, as: UTF8.self)
      case "data": data += String(decoding: value, as: UTF8.self) + "\n"
      // A comment, or a field that does not matter here.
      default: break
      }
    }
  }
}
