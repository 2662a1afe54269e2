import CanopyTesting
import CanopyTree
import Foundation
import Logging
import Synchronization
import Testing

@testable import CanopyClient

struct ConnectionPartsTests {
  @Test func `delays double up to their bound, with a random part of up to half`() {
    var random = SeededGenerator(printingSeedFor: "BackoffTests")
    var backoff = Backoff(first: 100, max: 1_000)
    for whole in [100, 200, 400, 800, 1_000, 1_000] as [Int64] {
      #expect((whole / 2...whole).contains(backoff.delay(random: random.next())))
    }
    backoff.reset()
    #expect(backoff.delay(random: 0) == 50)
    #expect(backoff.delay(random: 100) == 200)
    var odd = Backoff(first: -5, max: -7)
    #expect(odd.delay(random: .max) <= 1)
    odd = Backoff()
    (odd.first, odd.max) = (-5, -7)
    for _ in 0..<3 {
      odd.reset()
      #expect((0...1).contains(odd.delay(random: .max)))
    }
    var large = Backoff(first: 1, max: .max)
    for _ in 0..<200 { #expect(large.delay(random: random.next()) >= 0) }
  }

  @Test func `no number above an unanswered write is acknowledged`() {
    var numbers = WriteNumbers { 7 }
    for number: Int64 in 1...4 { numbers.recordSent(number) }
    numbers.endWrite(1)
    #expect(numbers.writesSeen == 1)
    // The fifth is too long to be sent, and ends before the sent ones.
    numbers.endWrite(5)
    #expect(numbers.writesSeen == 1)
    #expect(numbers.client(of: 6).seen == 1)
    numbers.endWrite(3)
    #expect(numbers.writesSeen == 1)
    #expect(numbers.unseenCount == 2)
    numbers.endWrite(2)
    #expect(numbers.writesSeen == 3)
    numbers.endWrite(4)
    #expect(numbers.writesSeen == 5)
    #expect(numbers.unseenCount == 0)
  }

  @Test func `URLs name a host, a port and TLS`() throws {
    #expect(
      try Endpoint.parse("canopy://h:1").endpoint == Endpoint(host: "h", port: 1, usesTLS: false))
    #expect(
      try Endpoint.parse("CANOPYS://h").endpoint == Endpoint(host: "h", port: 7070, usesTLS: true))
    #expect(try Endpoint.parse("canopy://[::1]:9/a/b").endpoint.host == "::1")
    #expect(try Endpoint.parse("canopy://[::1]:9/a/b").path == "/a/b")
    #expect(Endpoint(host: "::1", port: 9, usesTLS: false).text == "canopy://[::1]:9")
    // A character may combine with the separators of a URL, which are bytes nevertheless.
    let joined = try Endpoint.parse("canopy://h:7/\u{301}a/\u{600}")
    #expect(joined.endpoint == Endpoint(host: "h", port: 7, usesTLS: false))
    #expect(joined.path == "/\u{301}a/\u{600}")
    #expect(throws: DatabaseError.self) { try Endpoint.parse("canopy://h:7\u{301}/a") }
    #expect(throws: DatabaseError.self) { try Endpoint.parse("canopy://u\u{600}@h/a") }
    #expect(ReferenceTarget("/.info/\u{301}").text == "/.info/\u{301}")
    #expect(ReferenceTarget("/\u{301}a").keys == ["\u{301}a"])
    #expect(ReferenceTarget("k\u{600}/\u{301}a").keys == ["k\u{600}", "\u{301}a"])
    for text in [
      "", "canopy", "canopy:", "canopy://", "canopy://:7070", "ftp://h:1", "canopy://h:0",
      "canopy://h:65536", "canopy://h:x", "canopy://h:", "canopy://[::1", "canopy://[::1]x",
      "canopy://u:p@h", "canopy://h?x", "canopy://h#x", "canopy://h/a?b", "canopy://h h:1",
      "canopy://\u{0}h", "canopy://h\u{7F}",
    ] {
      let error = #expect(throws: DatabaseError.self, "\(text)") { try Endpoint.parse(text) }
      #expect(error?.code == .invalidURL)
    }
  }

  @Test func `URLs of HTTP name a database in the query or in the host`() throws {
    for (text, namespace, target) in [
      ("http://h:1", nil, "/.ws?v=5"), ("http://127.0.0.1:9000", nil, "/.ws?v=5"),
      ("http://[::1]:9000?ns=a", "a", "/.ws?v=5&ns=a"), ("https://example.com", nil, "/.ws?v=5"),
      ("https://Blog.example.com/", "blog", "/.ws?v=5&ns=blog"),
      ("https://blog.example.com/?x=1&ns=other", "other", "/.ws?v=5&ns=other"),
    ] as [(String, String?, String)] {
      let endpoint = try Endpoint.server(text)
      #expect(endpoint.isRealtime && endpoint.namespace == namespace)
      #expect(endpoint.realtimeTarget(lastSession: nil) == target)
      #expect(endpoint.realtimeTarget(lastSession: "1-a") == target + "&ls=1-a")
      // A URL that is written is read as the same server.
      #expect(try Endpoint.server(endpoint.text + endpoint.querySuffix) == endpoint)
    }
    #expect(try Endpoint.parse("http://h").endpoint.port == 80)
    #expect(try Endpoint.parse("https://h").endpoint.port == 443)
    #expect(try Endpoint.parse("https://h").endpoint.usesTLS)
    #expect(try Endpoint.parse("http://h:1/a/b?ns=n").path == "/a/b")
    for text in [
      "http://", "http://h:0", "http://h?ns=", "http://h?ns=a%20b", "http://h?ns=a\r\nx",
      "http://u@h", "https://a b.example.com",
    ] {
      let error = #expect(throws: DatabaseError.self, "\(text)") { try Endpoint.parse(text) }
      #expect(error?.code == .invalidURL)
    }
    let here = try Endpoint.server("https://blog.example.com")
    #expect(here.redirected(to: "s-1.example.com:444")?.authority == "s-1.example.com:444")
    #expect(here.redirected(to: "s-1.example.com")?.namespace == "blog")
    for host in ["", "a/b", "a?ns=x", "a b", "u@h"] { #expect(here.redirected(to: host) == nil) }
  }

  @Test func `the URL of a database has no path`() throws {
    #expect(try Endpoint.server("canopy://h:1/").port == 1)
    let error = #expect(throws: DatabaseError.self) { try Endpoint.server("canopy://h:1/a") }
    #expect(error?.code == .invalidURL)
    #expect(
      error?.sentence
        == #"the URL of a database has no path; "canopy://h:1/a" is for reference(fromURL:)"#)
  }

  @Test func `the error of an invalid URL shows its beginning`() {
    for (url, shown) in [
      ("", #""""#), ("h:1\u{0}", #""h:1\0""#),
      ("x" + String(repeating: "é", count: 300), "\"x" + String(repeating: "é", count: 199) + "\""),
    ] {
      let error = #expect(throws: DatabaseError.self) { try Endpoint.server(url) }
      #expect(error?.sentence.hasSuffix("https://; \(shown) is not") ?? false, "\(error)")
    }
  }

  @Test func `queries are encoded completely`() throws {
    for options in [
      #"{"orderBy":"$key","startAt":"a","endBefore":"é"}"#, #"{"orderBy":"$value","equalTo":null}"#,
      #"{"orderBy":"a/b","startAfter":[3,"k"],"limitToLast":5}"#,
      #"{"startAt":"x","limitToFirst":1}"#, #"{"orderBy":"a","startAt":false,"endAt":["t\"","k"]}"#,
      #"{"orderBy":"a","startAt":1.5,"endAt":-7}"#,
    ] {
      let query = try Query(options: try JSONValue(json: options))
      var output = JSONOutput()
      output.append(get: QuerySpec(try Path("a b/c"), query))
      let prefix = #"GET "/a b/c" "#
      #expect(output.text.hasPrefix(prefix))
      let sent = try JSONValue(json: String(output.text.dropFirst(prefix.count)))
      #expect(try Query(options: sent) == query, "\(output.text)")
    }
  }

  @Test(.timeLimit(.minutes(20)))
  func `without a server the client retries after longer and longer delays`() async throws {
    let waits = Received<Int64>()
    let bodies = Mutex<[@Sendable () -> Void]>([])
    var options = DatabaseOptions()
    options.logger = Logger(label: "client") { _ in SwiftLogNoOpLogHandler() }
    options.backoff = Backoff(first: 100, max: 800)
    options.environment = ClientEnvironment(
      now: { 0 }, random: { 0 },
      schedule: { milliseconds, body in
        bodies.withLock { $0.append(body) }
        waits.add(milliseconds)
      })
    // Port 1 has no server.
    let database = try Database(url: "canopy://127.0.0.1:1", options: options)
    database.goOnline()
    for count in 1...5 {
      await waits.wait(for: count)
      bodies.withLock { $0.popLast() }?()
    }
    #expect(waits.values.prefix(5) == [50, 100, 200, 400, 400])
    database.goOffline()
  }

  @Test(arguments: [
    ("3600", 3_600), ("0", 0), ("-1", 0), ("\(Int64.min)", 0), ("\(Int64.max)", 86_400),
    ("x", 3_600),
  ])
  func `a server may say any end of an identity token`(text: String, seconds: Int) throws {
    let reply = try JSONValue(
      json: #"{"id_token":"a.b.c","refresh_token":"r","expires_in":"\#(text)"}"#)
    #expect(IdentityToken(reply, now: 5)?.expiresAt == 5 + Int64(seconds) * 1_000)
  }
}
