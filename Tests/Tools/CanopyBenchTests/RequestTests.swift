import CanopyTree
import Testing

@testable import CanopyBench

struct RequestTests {
  private let data = DataSet(posts: 100, users: 10)

  @Test func `a body has the requested length, and contains its mark once`() {
    for post in [0, 9, 10, 123_456_789] {
      let body = data.bodyBytes(of: post)
      #expect(body.count == 300)
      #expect(body.withUnsafeBytes { $0.occurrences(of: DataSet.mark) } == 1)
    }
  }

  @Test func `a request to Redis states the correct lengths of its words`() throws {
    let hash = String(repeating: "0", count: 40)
    let dialect = RedisDialect(data, hashes: (hash, hash, hash))
    let requests: [BlogRequest] = [
      .post(number: 7), .post(number: 1_234_567), .star(post: 9), .comment(post: 99),
      .show(post: 0), .show(post: 98), .recent, .top,
    ]
    for request in requests {
      var bytes: [UInt8] = []
      dialect.write(request, as: 3, to: &bytes)
      // A command is an array, so the framer of replies finds the end of requests too.
      var framer = RESPFramer()
      let frame = try bytes.withUnsafeBytes { try framer.next(in: $0) }
      #expect(frame?.count == bytes.count, "\(request)")
    }
  }

  @Test func `a request to PostgreSQL is complete messages, the last of which is a Sync`() throws {
    for request in [BlogRequest.post(number: 7), .star(post: 9), .comment(post: 1), .recent] {
      var bytes: [UInt8] = []
      PostgresDialect(data).write(request, as: 3, to: &bytes)
      var kinds: [UInt8] = []
      var offset = 0
      while offset + 5 <= bytes.count {
        kinds.append(bytes[offset])
        offset += 1 + bytes.withUnsafeBytes { Int($0.bigEndian(UInt32.self, at: offset + 1)) }
      }
      #expect(offset == bytes.count)
      #expect(kinds == Array("BES".utf8))
    }
  }

  @Test func `the mix has the documented shares`() {
    var random = SplitMix64(seed: 1)
    var counts: [String: Int] = [:]
    for _ in 0..<60_000 {
      let request = Mix.blog.next(posts: 100, &random)
      counts[String("\(request)".prefix { $0 != "(" }), default: 0] += 1
    }
    let expected = [
      "recent": 16_000, "show": 16_000, "top": 16_000, "star": 6_000, "comment": 3_000,
      "post": 3_000,
    ]
    #expect(Set(counts.keys) == Set(expected.keys))
    for (name, count) in expected {
      #expect(abs((counts[name] ?? 0) - count) < count / 10, "\(name)")
    }
  }
}
