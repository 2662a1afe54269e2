/// The dialect of Redis. Each request is the fastest single command found for it.
///
/// A request of several steps is a script, so that it is atomic and one round trip. A list is not a script: `SORT … BY
/// nosort` walks a sorted set from its end and collects fields of hashes in C. It is two to three times as fast as a
/// script with ZREVRANGE and HGETALL, whose result passes through Lua's tables.
///
/// ```
/// post:<id>      hash {uid, author, title, body, createdAt, starCount, commentCount?}
/// recent         sorted set of ids by id
/// top            sorted set of all ids by stars
/// user:<n>       sorted set of a user's posts by stars
/// stars:<id>     set of users
/// comment:<id>   hash;  comments:<post>  sorted set of ids by id
/// ```
struct RedisDialect: Dialect {
  typealias Framer = RESPFramer

  static let post = """
    local id = redis.call('INCR', 'nextPost')
    local t = redis.call('TIME')
    redis.call('HSET', 'post:' .. id, 'uid', ARGV[1], 'author', 'user' .. ARGV[1],
      'title', ARGV[2], 'body', ARGV[3],
      'createdAt', string.format('%d', t[1] * 1000 + math.floor(t[2] / 1000)), 'starCount', 0)
    redis.call('ZADD', 'recent', id, id)
    redis.call('ZADD', 'user:' .. ARGV[1], 0, id)
    redis.call('ZADD', 'top', 0, id)
    return id
    """
  /// The script that toggles a star. The set decides; the counts in the hash, in the author's list and in the list of
  /// all posts follow.
  static let star = """
    local change = 1
    if redis.call('SADD', 'stars:' .. ARGV[1], ARGV[2]) == 0 then
      redis.call('SREM', 'stars:' .. ARGV[1], ARGV[2])
      change = -1
    end
    local post = 'post:' .. ARGV[1]
    local count = redis.call('HINCRBY', post, 'starCount', change)
    redis.call('ZINCRBY', 'user:' .. redis.call('HGET', post, 'uid'), change, ARGV[1])
    redis.call('ZINCRBY', 'top', change, ARGV[1])
    return {change, count}
    """
  static let comment = """
    local id = redis.call('INCR', 'nextComment')
    local t = redis.call('TIME')
    redis.call('HSET', 'comment:' .. id, 'uid', ARGV[2], 'author', 'user' .. ARGV[2],
      'text', ARGV[3],
      'createdAt', string.format('%d', t[1] * 1000 + math.floor(t[2] / 1000)))
    redis.call('ZADD', 'comments:' .. ARGV[1], id, id)
    redis.call('HINCRBY', 'post:' .. ARGV[1], 'commentCount', 1)
    return id
    """

  /// The fields of each post in a list. The first is the id.
  private static let fields = [
    "#", "post:*->uid", "post:*->author", "post:*->title", "post:*->body", "post:*->createdAt",
    "post:*->starCount", "post:*->commentCount",
  ]

  private let data: DataSet
  private let postHash: [UInt8]
  private let starHash: [UInt8]
  private let commentHash: [UInt8]
  private let recent: [UInt8]
  private let top: [[UInt8]]

  /// - Parameter hashes: the hashes of the three scripts from Redis.
  init(_ data: DataSet, hashes: (post: String, star: String, comment: String)) {
    self.data = data
    postHash = Array(hashes.post.utf8)
    starHash = Array(hashes.star.utf8)
    commentHash = Array(hashes.comment.utf8)
    recent = Self.list("recent", BlogRequest.recentCount)
    top = (0..<data.users).map { Self.list("user:\($0)", BlogRequest.topCount) }
  }

  private static func list(_ key: String, _ count: Int) -> [UInt8] {
    RESP.command(
      ["SORT", key, "BY", "nosort", "DESC", "LIMIT", "0", "\(count)"]
        + fields.flatMap { ["GET", $0] })
  }

  func write(_ request: BlogRequest, as user: Int, to output: inout [UInt8]) {
    switch request {
    case .ping:
      output += "PING\r\n".utf8
    case .post(let number):
      script(postHash, arguments: 3, &output)
      output.append(bulk: user)
      output += "$".utf8
      output.append(decimal: 12 + decimalDigits(number))
      output += "\r\nPost number ".utf8
      output.append(decimal: number)
      output += "\r\n$".utf8
      output.append(decimal: data.bodyBytes)
      output += "\r\n".utf8
      data.appendBody(of: number, to: &output)
      output += "\r\n".utf8
    case .star(let post):
      script(starHash, arguments: 2, &output)
      output.append(bulk: post + 1)
      output.append(bulk: user)
    case .comment(let post):
      script(commentHash, arguments: 3, &output)
      output.append(bulk: post + 1)
      output.append(bulk: user)
      output.append(bulk: BlogRequest.comment)
    case .show(let post):
      output += "*2\r\n$7\r\nHGETALL\r\n$".utf8
      output.append(decimal: 5 + decimalDigits(post + 1))
      output += "\r\npost:".utf8
      output.append(decimal: post + 1)
      output += "\r\n".utf8
    case .recent:
      output += recent
    case .top:
      output += top[user]
    }
  }

  private func script(_ hash: [UInt8], arguments: Int, _ output: inout [UInt8]) {
    output.append(UInt8(ascii: "*"))
    output.append(decimal: 3 + arguments)
    output += "\r\n$7\r\nEVALSHA\r\n$40\r\n".utf8
    output += hash
    output += "\r\n$1\r\n0\r\n".utf8
  }

  func check(
    _ frame: Frame, _ bytes: UnsafeRawBufferPointer, to request: BlogRequest, as user: Int,
    isThorough: Bool
  ) -> Verdict {
    switch request {
    case .ping:
      return Verdict(bytes.starts(with: "+PONG"))
    case .post:
      return bytes.starts(with: ":") ? .posted : .wrong
    case .comment:
      return Verdict(bytes.starts(with: ":"))
    case .star:
      if bytes.starts(with: "*2\r\n:1\r\n") { return .starred(true) }
      if bytes.starts(with: "*2\r\n:-1\r\n") { return .starred(false) }
      return .wrong
    case .show(let post):
      guard frame.rows >= 12, bytes.count > data.bodyBytes else { return .wrong }
      return Verdict(!isThorough || bytes.contains("\r\n\(data.body(post))\r\n"))
    case .recent:
      return checkList(frame, bytes, BlogRequest.recentCount, isThorough)
    case .top:
      return checkList(frame, bytes, BlogRequest.topCount, isThorough)
    }
  }

  private func checkList(
    _ frame: Frame, _ bytes: UnsafeRawBufferPointer, _ count: Int, _ isThorough: Bool
  ) -> Verdict {
    guard frame.rows == count * Self.fields.count, bytes.count > count * data.bodyBytes else {
      return .wrong
    }
    return Verdict(!isThorough || bytes.occurrences(of: DataSet.mark) == count)
  }
}
