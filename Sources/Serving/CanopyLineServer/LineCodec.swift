internal import CanopyEngine
internal import CanopyEvents
internal import CanopyMetrics
internal import CanopySession
internal import CanopySocial
internal import CanopyTree
internal import CanopyWire

/// Encodes replies as lines of the line protocol.
struct LineCodec {
  /// The most bytes of one reply.
  let replyBytesMax: Int
  /// The size in bytes up to which a reply is encoded at once.
  let wholeBytesMax: Int
  /// The size in bytes up to which a list is encoded at once. It is larger, because most of a list is copied.
  var wholeListBytesMax: Int { 8 * wholeBytesMax }
  /// The texts of large branches.
  let encoded: EncodedNodes

  /// Appends the line of a reply. If the reply is larger than it may be, appends the line of an error instead. The end
  /// of a long line is encoded as the client reads.
  ///
  /// - Parameter metrics: counts the errors.
  /// - Returns: whether the reply was appended.
  @discardableResult
  func encode(
    _ reply: Reply, to output: inout LineOutput, counting metrics: RequestMetrics
  ) -> Bool {
    var rest: LinePieces?
    switch reply {
    case .failure(let error):
      metrics.count(error.code)
      ReplyLine.failure(error, to: &output.text)
    case .json(let json): ReplyLine.success(to: &output.text) { json.append(to: &$0) }
    case .post(let id, let node): rest = encode(post: id, node, to: &output.text)
    case .entries(let entries): rest = encode(entries, to: &output.text)
    case .value(let node, let style, let etag, let bytes) where bytes.json <= wholeBytesMax:
      append({ encoded.append(node, style: style, to: &$0) }, etag: etag, to: &output.text)
    case .value(let node, let style, let etag, let bytes):
      rest = LinePieces(bytes: bytes, node, style) { output, value in
        self.append(value, etag: etag, to: &output)
      }
    case .members(let members, let style, let bytes) where bytes.json <= wholeBytesMax:
      ReplyLine.success(to: &output.text) {
        encoded.append([.members(members[...], style)], to: &$0)
      }
    case .members(let members, let style, let bytes):
      rest = LinePieces(
        bytes: bytes, parts: [.text(Array("+".utf8)), .members(members[...], style), .lineEnd])
    case .mismatch(let node, let etag, let style, let bytes) where bytes.json <= wholeBytesMax:
      append(
        mismatch: { encoded.append(node, style: style, to: &$0) }, etag: etag, to: &output.text)
    case .mismatch(let node, let etag, let style, let bytes):
      rest = LinePieces(bytes: bytes, node, style) { output, value in
        self.append(mismatch: value, etag: etag, to: &output)
      }
    case .subscribed(let subscribed)
    where subscribed.bytes.json > min(wholeBytesMax, replyBytesMax):
      rest = LinePieces(subscribed, eventBytesMax: replyBytesMax)
    case .subscribed(let subscribed):
      do throws(WireError) {
        try encode(subscribed, to: &output.text)
      } catch {
        ReplyLine.failure(error, to: &output.text)
        return false
      }
    }
    if let rest { output.append(rest) }
    return true
  }

  /// Appends the reply with a value, which `body` appends, and with its ETag if there is one.
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

  /// Appends the reply to a compare-and-set that found another value, which `body` appends.
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

  /// Appends a post. A large post, such as one with very many stars, is returned to be encoded later.
  private func encode(post id: Key, _ node: Node, to output: inout JSONOutput) -> LinePieces? {
    let start = output.count
    var isWhole = true
    ReplyLine.success(to: &output) {
      isWhole = append(entry: id, node, to: &$0, upTo: wholeBytesMax)
    }
    if isWhole { return nil }
    output.truncate(to: start)
    var parts = LinePieces.parts(ofEntry: id, node)
    parts.insert(.text(Array("+".utf8)), at: 0)
    return LinePieces(bytes: bytes(of: [(id, node)]), parts: parts + [.lineEnd])
  }

  /// Appends a post or comment: its id, then its members.
  ///
  /// - Parameter bytesMax: the number of bytes after which to stop.
  /// - Returns: whether all of it was appended.
  private func append(
    entry key: Key, _ node: Node, to output: inout JSONOutput, upTo bytesMax: Int
  ) -> Bool {
    var isWhole = true
    output.object {
      $0.member("id", key)
      isWhole = encoded.append(membersOf: node, to: &$0, upTo: bytesMax)
    }
    return isWhole
  }

  /// Appends a reply that is a JSON object with the members that `body` appends.
  @inline(__always)
  private func success(to output: inout JSONOutput, _ body: (inout JSONOutput) -> Void) {
    ReplyLine.success(to: &output) { $0.object(body) }
  }

  /// Appends a list, or as much of it as is encoded at once. Returns the rest.
  ///
  /// Entries that do not fit into a reply are left out; then the last element is a cursor, from which the
  /// next page begins. The first entry may have any size.
  private func encode(_ entries: [Feeds.Entry], to output: inout JSONOutput) -> LinePieces? {
    let start = output.count
    output.append("+[")
    for (index, (key, node)) in entries.enumerated() {
      let end = output.count
      let room = wholeListBytesMax - (end - start)
      if index > 0 { output.append(UInt8(ascii: ",")) }
      guard room > 0, append(entry: key, node, to: &output, upTo: room) else {
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

  /// Returns the end of a list, to be encoded later.
  ///
  /// - Parameter bytes: the number of bytes of the line before it.
  private func rest(
    of entries: [Feeds.Entry], from first: Int, after bytes: Int
  ) -> LinePieces {
    var index = first
    var hasEnded = false
    return LinePieces(bytes: self.bytes(of: entries)) { [replyBytesMax] written in
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

  /// Returns the bytes of entries that are encoded later. Their JSON is not measured.
  private func bytes(of entries: [Feeds.Entry]) -> ValueBytes {
    ValueBytes(json: wholeBytesMax, memory: entries.memoryBytes(atMost: replyBytesMax))
  }

  /// Appends the reply to a request for a subscription, and its first events.
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
  /// Encodes the first events of a new subscription.
  ///
  /// - Throws: `WireError` when an event is larger than a line may be.
  fileprivate init(_ subscribed: Subscribed, bytesMax: Int) throws(WireError) {
    switch subscribed.content {
    case .state(let state, let listening, let isReplacement):
      try self.init(
        state, subscribed.sequence, of: listening, isAgain: isReplacement, bytesMax: bytesMax)
    case .changes(let events, let listening):
      try self.init(events, subscribed.sequence, of: listening, in: .line, bytesMax: bytesMax)
    case .constant(let node, let form):
      self.init(constant: node, subscribed.sequence, form: form)
    }
  }
}
