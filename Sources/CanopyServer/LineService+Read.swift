internal import CanopyEngine
internal import CanopySocial
internal import CanopyTree
internal import CanopyWire
internal import NIOCore

extension LineService {
  /// Answers a read into `output`, or returns bytes that are to be sent after it: those that others get
  /// as well.
  ///
  /// - Parameters:
  ///   - cache: that of the event loop.
  ///   - lists: that of the event loop.
  func read(
    _ request: Request, as identity: Identity, _ cache: EntryCache?, _ lists: ListCache?,
    to output: inout JSONOutput
  ) -> ByteBuffer? {
    guard let lists, let list = SharedList(request) else {
      read(request, as: identity, cache, to: &output)
      return nil
    }
    let (root, sequence) = engine.snapshot
    if let line = lists.find(list, at: sequence) { return line }
    let start = output.count
    do {
      try append(request, as: identity, cache, in: root, to: &output)
      if output.count - start >= ListCache.bytesMin {
        let line = output.withBytes {
          ByteBuffer(bytes: UnsafeRawBufferPointer(rebasing: $0[start...]))
        }
        lists.keep(line, of: list)
      }
    } catch {
      Reply.failure(wireError(error), to: &output)
    }
    return nil
  }

  /// Answers a read into `output`, with a success or a failure.
  ///
  /// - Parameter cache: that of the event loop; nil elsewhere.
  func read(
    _ request: Request, as identity: Identity, _ cache: EntryCache?, to output: inout JSONOutput
  ) {
    do {
      try answer(request, as: identity, cache, to: &output)
    } catch {
      Reply.failure(wireError(error), to: &output)
    }
  }

  private func answer(
    _ request: Request, as identity: Identity, _ cache: EntryCache?, to output: inout JSONOutput
  ) throws {
    switch request {
    case .ping: output.append("+\"PONG\"\r\n")
    case .hello: hello(to: &output)
    case .help(let verb): try help(verb, to: &output)
    case .whoAmI: whoAmI(identity, to: &output)
    case .get(let location, let options):
      let root = engine.root
      try checkRead(location.path, options.query, in: root, as: identity)
      try get(location, options, in: root, to: &output)
    case .count(let path, let query):
      let root = engine.root
      try checkRead(path, query, in: root, as: identity)
      let count = query.count(in: root.at(path))
      Reply.success(to: &output) { $0.append(Int64(count)) }
    case .rules:
      try requireAdministrator(identity)
      tellRules(to: &output)
    case .info(let path):
      let node = try info(path)
      Reply.success(to: &output) { $0.append(node) }
    case .show(let id):
      let post = try Posts.find(id, in: engine.root)
      Reply.success(to: &output) { $0.append(entry: id, post) }
    case .recent, .comments, .posts, .top:
      try append(request, as: identity, cache, in: engine.root, to: &output)
    case .profile(let reference):
      let root = engine.root
      let uid = try find(reference, as: identity, in: root)
      let name = Users.username(of: uid, in: root) ?? ""
      Reply.success(to: &output) { output in
        output.append("{\"uid\":")
        output.append(key: uid)
        output.append(",\"username\":")
        output.append(string: name)
        output.append("}")
      }
    default:
      throw WireError(.internalError, "the request is not a read")
    }
  }

  /// Writes the list that a request asks for.
  private func append(
    _ request: Request, as identity: Identity, _ cache: EntryCache?, in root: Node,
    to output: inout JSONOutput
  ) throws {
    let entries: [Feeds.Entry]
    switch request {
    case .recent(let page):
      entries = Feeds.recent(try Feeds.Page(page), in: root)
    case .comments(let id, let page):
      entries = try Feeds.comments(on: id, Feeds.Page(page), in: root)
    case .posts(let reference, let page):
      let uid = try find(reference, as: identity, in: root)
      entries = Feeds.posts(by: uid, try Feeds.Page(page), in: root)
    case .top(let reference, let limit):
      let limit = try Feeds.Page(limit: limit).limit
      let uid = try reference.map { try find($0, as: identity, in: root) }
      entries = Feeds.top(by: uid, limit: limit, in: root)
    default:
      throw WireError(.internalError, "the request is not one for a list")
    }
    try append(entries, cache, to: &output)
  }

  /// Writes a list. One entry may be as large as it is; more must fit into a reply.
  private func append(
    _ entries: [Feeds.Entry], _ cache: EntryCache?, to output: inout JSONOutput
  ) throws(WireError) {
    // Straight into the output: a list may be long, and this is most of what it costs.
    let start = output.count
    output.append("+[")
    for (index, (key, node)) in entries.enumerated() {
      if index > 0 { output.append(UInt8(ascii: ",")) }
      output.append(entry: key, node, cache)
      guard index == 0 || output.count - start <= limits.replyBytesMax else {
        output.truncate(to: start)
        throw WireError(.tooLarge, "the list is larger than a reply may be; ask with a lower limit")
      }
    }
    output.append("]\r\n")
  }

  func find(
    _ reference: UserReference, as identity: Identity, in root: Node
  ) throws -> Key {
    switch reference {
    case .me: try caller(identity)
    case .uid(let text): try Users.find(.uid(text), in: root)
    case .username(let name): try Users.find(.username(name), in: root)
    }
  }

  /// The user of a connection.
  ///
  /// - Throws: `WireError` when it is nobody's, or no longer anybody's.
  func caller(_ identity: Identity) throws(WireError) -> Key {
    guard case .user(let session) = identity else { throw .loginNeeded }
    guard session.isValid(at: now()) else {
      throw WireError(.unauthenticated, "the session has ended; log in again")
    }
    return session.uid
  }

  func requireAdministrator(_ identity: Identity) throws(WireError) {
    guard case .administrator = identity else { throw .administratorNeeded }
  }
}

extension Feeds.Page {
  fileprivate init(_ request: PageRequest) throws {
    try self.init(limit: request.limit, before: request.before)
  }

  init(limit: Int64?, before: Key? = nil) throws {
    // What is no Int is out of bounds all the same.
    try self.init(limit: limit.map { Int(clamping: $0) } ?? 20, before: before)
  }
}

extension JSONOutput {
  /// A post or comment: its id, then what is stored.
  mutating func append(entry key: Key, _ node: Node, _ cache: EntryCache? = nil) {
    append("{\"id\":")
    append(key: key)
    if let cache { cache.append(membersOf: node, to: &self) } else { append(membersOf: node) }
    append("}")
  }
}
