import CanopyTesting
import CanopyTree
import CanopyWire
import NIOCore
import NIOEmbedded
import Testing

@testable import CanopyEvents
@testable import CanopyLineServer
@testable import CanopySession

struct ListCacheTests {
  private func list(_ text: String) throws -> SharedList {
    try #require(SharedList(try request(text)))
  }

  private func recent(_ limit: Int) throws -> SharedList { try list("RECENT {\"limit\":\(limit)}") }

  private func line(_ count: Int) -> ByteBuffer { ByteBuffer(repeating: 0x78, count: count) }

  private func keep(_ count: Int, of list: SharedList, in cache: ListCache) {
    [UInt8](repeating: 0x78, count: count).withUnsafeBytes { cache.keep($0[...], of: list) }
  }

  @Test func `a reply is found until the next commit`() throws {
    let cache = ListCache()
    let list = try recent(100)
    #expect(cache.find(list, at: 1) == nil)
    keep(5000, of: list, in: cache)
    #expect(cache.find(list, at: 1) == line(5000))
    #expect(cache.find(try recent(99), at: 1) == nil)
    #expect(cache.find(try self.list("RECENT {\"limit\":100,\"before\":\"a\"}"), at: 1) == nil)
    #expect(cache.find(list, at: 2) == nil)
    // A line that is kept later belongs to the later commit.
    #expect(cache.find(list, at: 1) == nil)
    #expect(cache.found == 1)
  }

  @Test(arguments: [(4095, false), (4096, true), (10_000, true), (10_001, false)])
  func `a reply is kept if it has from 4096 bytes up to the bound`(_ bytes: Int, _ isKept: Bool)
    throws
  {
    let cache = ListCache(bytesMax: 10_000)
    let list = try list("TOP {\"limit\":100}")
    _ = cache.find(list, at: 1)
    keep(bytes, of: list, in: cache)
    #expect((cache.find(list, at: 1) != nil) == isKept)
  }

  @Test func `the lists and bytes that are kept are bounded`() throws {
    let cache = ListCache(listsMax: 3, bytesMax: 20_000)
    func keep(_ limit: Int, _ bytes: Int) throws {
      _ = cache.find(try recent(limit), at: 1)
      self.keep(bytes, of: try recent(limit), in: cache)
    }
    func kept() throws -> [Int] {
      try (1...9).filter { cache.find(try recent($0), at: 1) != nil }
    }
    for limit in 1...3 { try keep(limit, 5000) }
    #expect(try kept() == [1, 2, 3])
    try keep(4, 5000)
    #expect(try kept() == [4])
    try keep(5, 15_000)
    #expect(try kept() == [4, 5])
    try keep(6, 5000)
    #expect(try kept() == [6])
  }

  @Test(arguments: [
    "POSTS me", "POSTS me {\"limit\":3}", "TOP me", "SHOW x", "WHOAMI", "PROFILE x", "GET /posts",
  ])
  func `a reply that depends on the caller, or is not a list, is not shared`(_ text: String) throws
  {
    #expect(SharedList(try request(text)) == nil)
  }

  @Test(arguments: [
    "RECENT", "RECENT {\"limit\":5}", "POSTS @ada", "TOP", "TOP @ada", "COMMENTS x",
  ])
  func `a list that is the same for every caller is shared`(_ text: String) throws {
    #expect(SharedList(try request(text)) != nil)
  }

  private func request(_ text: String) throws -> ReadRequest {
    let request = try Array(text.utf8).withUnsafeBytes { try Request(line: $0, limits: Limits()) }
    guard case .read(let read) = request else {
      throw WireError(.badRequest, "not a read: \(text)")
    }
    return read
  }

  @Test func `a list is encoded once between two commits`() async throws {
    try await withServer(.inProcess) { server in
      let ada = try await server.connect(as: "ada")
      let body = String(repeating: "x", count: 1000)
      for number in 0..<5 { _ = try await ada.value("POST \"number \(number)\" \(body)") }
      let context = LoopContext(server.parts.operations, loop: EmbeddedEventLoop())
      func written() throws -> (text: String, isShared: Bool) {
        var output = LineOutput()
        let found = context.lists.found
        #expect(
          context.read(try request("RECENT"), as: .anonymous, in: context.inbox, to: &output))
        var text = ""
        while let (buffer, _) = output.take() { text += String(buffer: buffer) }
        return (text, context.lists.found > found)
      }
      let first = try written()
      #expect(!first.isShared && first.text.utf8.count > 5000)
      for _ in 0..<2 { #expect(try written() == (first.text, true)) }
      _ = try await ada.value("POST another \(body)")
      context.inbox.release()
      let second = try written()
      #expect(!second.isShared && second.text != first.text)
    }
  }

  @Test(arguments: Depth.allCases)
  func `a long list keeps its place among other replies, and is new after each commit`(
    _ depth: Depth
  ) async throws {
    try await withServer(depth) { server in
      let ada = try await server.connect(as: "ada")
      let body = String(repeating: "x", count: 1000)
      for number in 0..<10 { _ = try await ada.value("POST \"number \(number)\" \(body)") }
      let readers = [try await server.connect(), try await server.connect()]
      for round in 0..<3 {
        let newest = try await ada.text("id", "POST \"round \(round)\" \(body)")
        let list = try await readers[0].request("RECENT {\"limit\":5}")
        #expect(list.hasPrefix("+[{\"id\":\"\(newest)\"") && list.utf8.count > 5000)
        let post = try await readers[0].request("SHOW \(newest)")
        for reader in readers {
          async let replies = reader.readLines(9)
          try await reader.send(
            """
            PING
            RECENT {"limit":5}
            RECENT {"limit":5}
            SHOW \(newest)
            PING
            RECENT {"limit":5}
            RECENT {"limit":101}
            RECENT {"limit":5}
            WHOAMI

            """)
          var got = try await replies
          let refused = got.remove(at: 6)
          expectReply(refused, to: "RECENT {\"limit\":101}", hasPrefix: "-INVALID")
          #expect(
            got == ["+\"PONG\"", list, list, post, "+\"PONG\"", list, list, "+null"])
        }
        try await ada.expect("STAR \(newest)", contains: "\"starCount\":1")
        let starred = try await readers[1].request("RECENT {\"limit\":5}")
        #expect(starred != list && starred.contains("\"starCount\":1"))
      }
    }
  }

  @Test(arguments: Depth.allCases)
  func `a list shows the changes since the last request`(_ depth: Depth) async throws {
    try await withServer(depth) { server in
      let client = try await server.connect(as: "ada")
      for i in 0..<20 { try await client.value("POST \"post \(i)\" body") }
      let first = try await client.request("RECENT")
      try await client.expect("RECENT", first)
      let id = try #require(
        try JSONValue(json: String(first.dropFirst())).elements?[3]["id"]?.string)
      try await client.value("STAR \(id)")
      let second = try await client.value("RECENT")
      #expect(second.elements?[3]["starCount"]?.integer == 1)
      #expect(second.elements?[4]["starCount"]?.integer == 0)
    }
  }
}
