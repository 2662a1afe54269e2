internal import CanopyEngine
internal import CanopyRules
internal import CanopySession
internal import CanopySocial
internal import CanopyTree
internal import CanopyWire

/// Encodes replies as lines of the line protocol.
struct LineCodec {
  /// The bound on the bytes of one reply.
  let replyBytesMax: Int
  /// The bytes up to which a reply is encoded in one go.
  let wholeBytesMax: Int
  /// The bytes up to which a list is encoded in one go: more, as most of it is copied.
  var wholeListBytesMax: Int { 8 * wholeBytesMax }
  /// The texts of posts that lists have shown.
  let cache: EntryCache

  /// Appends the line of a reply, as far as it is encoded in one go.
  ///
  /// - Returns: the rest of the line, which is encoded as the client reads; nil if there is none.
  /// - Throws: `WireError` when the reply is larger than it may be; then nothing is appended.
  func encode(_ reply: Reply, to output: inout JSONOutput) throws(WireError) -> LinePieces? {
    let start = output.count
    switch reply {
    case .failure(let error): ReplyLine.failure(error, to: &output)
    case .null: output.append("+null\r\n")
    case .pong: output.append("+\"PONG\"\r\n")
    case .farewell: output.append("+\"BYE\"\r\n")
    case .hello(let server): ReplyLine.success(to: &output) { $0.append(server) }
    case .help(nil): ReplyLine.success(to: &output) { $0.appendCommands() }
    case .help(let command?): ReplyLine.success(to: &output) { $0.append(command) }
    case .user(nil): output.append("+null\r\n")
    case .user(let user?):
      ReplyLine.success(to: &output) { $0.object { $0.members(of: user) } }
    case .administrator: output.append("+{\"administrator\":true}\r\n")
    case .profile(let uid, let username):
      success(to: &output) {
        $0.member("uid", uid)
        $0.member("username", username)
      }
    case .post(let id, let node): return encode(post: id, node, to: &output)
    case .entries(let entries): return encode(entries, to: &output)
    case .value(let node, let style, let etag, let bytes):
      guard bytes <= wholeBytesMax else {
        return LinePieces(bytes: bytes, node, style) { output, value in
          self.append(value, etag: etag, to: &output)
        }
      }
      append({ $0.append(node, style: style) }, etag: etag, to: &output)
    case .members(let members, let style, let bytes):
      guard bytes <= wholeBytesMax else {
        return LinePieces(
          bytes: bytes, parts: [.text(Array("+".utf8)), .members(members[...], style), .lineEnd])
      }
      ReplyLine.success(to: &output) { $0.append(members: members, style) }
    case .count(let count): ReplyLine.success(to: &output) { $0.append(Int64(count)) }
    case .rules(let text, let isBuiltIn):
      success(to: &output) {
        $0.member("builtIn", isBuiltIn)
        $0.member("text", text)
      }
    case .created(let id): success(to: &output) { $0.member("id", id) }
    case .starred(let isStarred, let count):
      success(to: &output) {
        $0.member("starred", isStarred)
        $0.member("starCount", count)
      }
    case .committed(let sequence): success(to: &output) { $0.member("seq", sequence) }
    case .pushed(let key, let sequence):
      success(to: &output) {
        $0.member("key", key)
        $0.member("seq", sequence)
      }
    case .exchanged(let sequence):
      success(to: &output) {
        $0.member("committed", true)
        $0.member("seq", sequence)
      }
    case .mismatch(let node, let etag, let style, let bytes):
      guard bytes <= wholeBytesMax else {
        return LinePieces(bytes: bytes, node, style) { output, value in
          self.append(mismatch: value, etag: etag, to: &output)
        }
      }
      append(mismatch: { $0.append(node, style: style) }, etag: etag, to: &output)
    case .subscribed(let subscribed):
      if subscribed.bytes > wholeBytesMax { return LinePieces(subscribed) }
      try encode(subscribed, to: &output)
    case .session(let session):
      success(to: &output) {
        $0.members(of: session.user)
        $0.member("token", session.token)
        $0.member("expires", session.expires)
      }
    case .explanation(let explanation):
      ReplyLine.success(to: &output) { $0.append(explanation) }
      guard output.count - start <= replyBytesMax else {
        output.truncate(to: start)
        throw WireError(
          .tooLarge, "the explanation is larger than a reply may be; ask about a smaller write")
      }
    }
    return nil
  }

  /// Appends a value that `body` appends, with its ETag if there is one.
  @inline(__always)
  private func append(
    _ body: (inout JSONOutput) -> Void, etag: String?, to output: inout JSONOutput
  ) {
    guard let etag else { return ReplyLine.success(to: &output, body) }
    success(to: &output) {
      $0.member("etag", etag)
      $0.member("data")
      body(&$0)
    }
  }

  /// Appends the reply that the present value is another one, which `body` appends.
  private func append(
    mismatch body: (inout JSONOutput) -> Void, etag: String, to output: inout JSONOutput
  ) {
    success(to: &output) {
      $0.member("committed", false)
      $0.member("etag", etag)
      $0.member("data")
      body(&$0)
    }
  }

  /// Appends a post, or returns it if it is large, such as one with very many stars.
  private func encode(post id: Key, _ node: Node, to output: inout JSONOutput) -> LinePieces? {
    let start = output.count
    var isWhole = true
    ReplyLine.success(to: &output) {
      isWhole = $0.append(entry: id, node, upTo: wholeBytesMax)
    }
    if isWhole { return nil }
    output.truncate(to: start)
    var parts = LinePieces.parts(ofEntry: id, node)
    parts.insert(.text(Array("+".utf8)), at: 0)
    return LinePieces(bytes: wholeBytesMax, parts: parts + [.lineEnd])
  }

  /// Appends a reply that is a JSON object with the members that `body` appends.
  @inline(__always)
  private func success(to output: inout JSONOutput, _ body: (inout JSONOutput) -> Void) {
    ReplyLine.success(to: &output) { $0.object(body) }
  }

  /// Appends a list, or as much of it as is encoded in one go. Returns the rest.
  ///
  /// Entries that do not fit into a reply are left out; the last item then names the entry to go on from. One
  /// entry may be as large as it is.
  private func encode(_ entries: [Feeds.Entry], to output: inout JSONOutput) -> LinePieces? {
    let start = output.count
    output.append("+[")
    for (index, (key, node)) in entries.enumerated() {
      let end = output.count
      let room = wholeListBytesMax - (end - start)
      if index > 0 { output.append(UInt8(ascii: ",")) }
      guard room > 0, output.append(entry: key, node, upTo: room, cache) else {
        output.truncate(to: end)
        return rest(of: entries, from: index, after: end - start)
      }
      if index > 0, output.count - start > replyBytesMax {
        output.truncate(to: end)
        output.append(",")
        output.object { $0.member("before", entries[index - 1].key) }
        break
      }
    }
    output.append("]\r\n")
    return nil
  }

  /// Returns the end of a list.
  ///
  /// - Parameter bytes: the bytes of the line before it.
  private func rest(
    of entries: [Feeds.Entry], from first: Int, after bytes: Int
  ) -> LinePieces {
    var index = first
    var hasEnded = false
    return LinePieces(bytes: wholeBytesMax) { [replyBytesMax] written in
      guard !hasEnded else { return [] }
      if index < entries.count {
        let (key, node) = entries[index]
        if index == 0 || node.fits(bytes: replyBytesMax - bytes - written) {
          index += 1
          let comma: [LinePieces.Part] = index > 1 ? [.text(Array(",".utf8))] : []
          return comma + LinePieces.parts(ofEntry: key, node)
        }
      }
      hasEnded = true
      let isWhole = index == entries.count
      return [
        .text {
          if !isWhole {
            $0.append(",")
            $0.object { $0.member("before", entries[index - 1].key) }
          }
          $0.append("]\r\n")
        }
      ]
    }
  }

  /// Appends the reply to a request for a subscription, and the events of its content.
  private func encode(
    _ subscribed: Subscribed, to output: inout JSONOutput
  ) throws(WireError) {
    let lines = try EventLines(subscribed, bytesMax: replyBytesMax)
    success(to: &output) {
      $0.member("sub", subscribed.number)
      $0.member("seq", subscribed.sequence)
      $0.member("initial", Int64(lines.count))
    }
    lines.append(to: &output, for: subscribed.number)
  }
}

extension EventLines {
  /// Encodes the content of a new subscription.
  ///
  /// - Throws: `WireError` when an event is larger than a line may be.
  fileprivate init(_ subscribed: Subscribed, bytesMax: Int) throws(WireError) {
    switch subscribed.content {
    case .state(let start, let listening, let isReplacement):
      try self.init(start: start, of: listening, isAgain: isReplacement, bytesMax: bytesMax)
    case .changes(let events, let listening):
      try self.init(events, subscribed.sequence, of: listening, bytesMax: bytesMax)
    case .constant(let node, let form):
      self.init(constant: node, subscribed.sequence, form: form)
    }
  }
}

extension JSONOutput {
  fileprivate mutating func members(of user: UserDescription) {
    member("uid", user.uid)
    member("username", user.username)
    member("email", user.email)
  }

  fileprivate mutating func append(_ server: ServerDescription) {
    object {
      $0.member("server", "canopy")
      $0.member("version", server.version)
      $0.member("protocol", 1)
      $0.member("time", server.time)
      $0.member("limits")
      $0.object { output in
        for (index, (name, bound)) in server.limits.enumerated() {
          if index > 0 { output.append(UInt8(ascii: ",")) }
          output.append(string: name)
          output.append(":")
          output.append(Int64(bound))
        }
      }
    }
  }

  fileprivate mutating func append(_ command: Command) {
    object {
      $0.member("usage", command.usage)
      $0.member("summary", command.summary)
    }
  }

  /// Appends the table of commands: groups, and in each the usage and the summary of every verb.
  fileprivate mutating func appendCommands() {
    append("{")
    for (index, group) in Command.Group.allCases.enumerated() {
      if index > 0 { append(",") }
      append(string: group.rawValue)
      append(":{")
      for (index, command) in Command.all.filter({ $0.group == group }).enumerated() {
        if index > 0 { append(",") }
        append(string: command.usage)
        append(":")
        append(string: command.summary)
      }
      append("}")
    }
    append("}")
  }

  /// Appends a post or comment: its id, then its members.
  ///
  /// - Parameter bytesMax: the bytes after which to give up.
  /// - Returns: whether all of it was appended.
  mutating func append(
    entry key: Key, _ node: Node, upTo bytesMax: Int, _ cache: EntryCache? = nil
  ) -> Bool {
    append("{\"id\":")
    append(key: key)
    let isWhole =
      if let cache {
        cache.append(membersOf: node, to: &self, upTo: bytesMax)
      } else {
        append(membersOf: node, upTo: bytesMax)
      }
    append("}")
    return isWhole
  }

  /// Appends children in the given order: as an object even where the keys are integers, to keep it.
  fileprivate mutating func append(members: [(key: Key, node: Node)], _ style: JSONStyle) {
    guard !members.isEmpty else { return append("null") }
    append("{")
    for (index, (key, node)) in members.enumerated() {
      if index > 0 { append(UInt8(ascii: ",")) }
      append(key: key)
      append(UInt8(ascii: ":"))
      append(node, style: style)
    }
    append("}")
  }

  fileprivate mutating func append(_ explanation: Explanation) {
    object {
      $0.member("allowed", explanation.verdict.isAllowed)
      if case .denied(let denial) = explanation.verdict { $0.member("reason", denial.sentence) }
      $0.member("steps")
      $0.array(explanation.steps) { output, step in
        output.object {
          $0.member("rule", step.rule)
          $0.member("line", Int64(step.line))
          $0.member("at", step.location)
          $0.member("outcome", step.outcome.sentence)
          $0.member("parts")
          $0.array(step.parts) { output, part in
            output.array([part.text, part.value]) { $0.append(string: $1) }
          }
        }
      }
    }
  }
}
