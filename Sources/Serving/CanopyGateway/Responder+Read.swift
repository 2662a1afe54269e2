internal import CanopyEvents
internal import CanopyEngine
internal import CanopySession
internal import CanopyTree
internal import CanopyWire
internal import HTTPTypes
internal import NIOCore
internal import Synchronization

/// Reads.
extension Responder {
  /// Answers a GET.
  func read(
    _ request: Parsed, at location: Location, _ options: RequestOptions, as identity: Identity
  ) async throws -> HTTPAnswer {
    let get = try getOptions(request, options)
    if let sequence = options.atLeast {
      do {
        try await operations.engine.wait(for: sequence, atMost: Operations.atLeastMax)
      } catch { throw operations.wireError(error) }
    }
    let (reply, node) = try await read(
      .get(location, get), at: location, timeout: options.timeoutMilliseconds, as: identity)
    // It waits for its turn.
    connection.charge(reply.heldBytes)
    var answer = HTTPAnswer()
    try await inTurn { answer = try self.answer(reply, of: node, get, to: request, options) }
    return answer
  }

  /// Answers a GET in a namespace that is not created yet: its tree is empty, and its rules allow everything.
  func readUncreated(_ request: Parsed, at location: Location) async throws -> HTTPAnswer {
    _ = try await identity(request)
    let options = try await inTurn { try RequestOptions(request.target) }
    let get = try getOptions(request, options)
    guard
      let reply = operations.read(.get(location, get), as: .administrator, in: .absent)
    else { throw WireError(.internalError, "the read of an empty tree does not end") }
    return try answer(reply, of: .absent, get, to: request, options)
  }

  /// Answers a GET that does not take long.
  ///
  /// - Returns: nil if it takes long, or the body of the response is long.
  func shortRead(
    _ request: Parsed, at location: Location, _ options: RequestOptions, as identity: Identity
  ) throws -> HTTPAnswer? {
    guard options.timeoutMilliseconds == nil, !Responder.wantsStream(request.fields) else {
      return nil
    }
    if let sequence = options.atLeast, !operations.engine.isInForce(sequence) { return nil }
    let get = try getOptions(request, options)
    // An index for the administrator may have to be made.
    if get.hasQuery, case .administrator = identity { return nil }
    let root = operations.engine.root
    guard let reply = operations.read(.get(location, get), as: identity, in: root) else {
      return nil
    }
    // The body is to be compressed, which the task of the connection does. So it is not encoded here. With If-None-Match
    // there may be no body.
    if reply.bytes >= Gzip.bodyBytesMin, request.fields[.ifNoneMatch] == nil,
      Responder.acceptsGzip(request.fields)
    {
      return nil
    }
    let encoded = connection.loop.value.encoded
    let answer = try answer(
      reply, of: root.at(location.path), get, to: request, options, encoded)
    return answer.isReady(acceptsGzip: Responder.acceptsGzip(request.fields)) ? answer : nil
  }

  private func getOptions(
    _ request: Parsed, _ options: RequestOptions
  ) throws(WireError) -> GetOptions {
    var get = options.get
    get.wantsETag = request.fields[.ifNoneMatch] != nil || request.wantsETag
    if get.wantsETag, get.hasQuery || get.isShallow {
      throw WireError(.badRequest, "an ETag cannot be used with a query or shallow")
    }
    return get
  }

  /// Returns the response to a GET with its reply.
  ///
  /// - Parameter encoded: the texts of the event loop; nil if the caller runs on another thread.
  private func answer(
    _ reply: Reply, of node: @autoclosure () -> Node, _ get: GetOptions, to request: Parsed,
    _ options: RequestOptions, _ encoded: EncodedNodes? = nil
  ) throws(WireError) -> HTTPAnswer {
    let reply = get.isShallow ? reply.withoutLeaves : reply
    var answer = try self.answer(
      reply, isEmptyObject: get.hasQuery && node().isBranch, encoded)
    if case .value(_, _, let etag?, _) = reply, let expected = request.fields[.ifNoneMatch],
      etag.hasSameBytes(as: expected)
    {
      let fields = answer.fields
      answer = HTTPAnswer(.notModified)
      answer.fields[.eTag] = fields[.eTag]
      return answer
    }
    if let name = options.download {
      answer.fields[.contentDisposition] = "attachment; filename=\"\(name.fileName)\""
    }
    return answer.printed(options.printing)
  }

  /// Reads a location of the present tree.
  ///
  /// - Parameter timeout: the milliseconds after which the read fails; nil for no bound.
  /// - Returns: the reply, and the node that was read.
  func read(
    _ request: ReadRequest, at location: Location, timeout: Int64?, as identity: Identity
  ) async throws -> (Reply, Node) {
    // Only the administrator may read in an order for which there is no index.
    if case .administrator = identity { await operations.prepare(request) }
    // The snapshot is taken in the turn: a read that waits must not hold one.
    let short = try await inTurn { [operations] () -> (Reply, Node)? in
      let root = operations.engine.root
      return operations.read(request, as: identity, in: root).map { ($0, root.at(location.path)) }
    }
    if let short { return short }
    let found = Mutex(Node.absent)
    let root = { @Sendable [operations] in
      let root = operations.engine.root
      found.withLock { $0 = root.at(location.path) }
      return root
    }
    let reply = await withDeadline(timeout) { [operations, connection] in
      await operations.longRead(
        request, as: identity, turns: connection.turns, in: root, after: root)
    }
    guard let reply else {
      throw WireError(.badRequest, "the read took longer than its timeout")
    }
    return (reply, found.withLock { $0 })
  }

  /// Returns the response with the value of a reply.
  ///
  /// - Parameters:
  ///   - isEmptyObject: whether no members are an empty object rather than null.
  ///   - encoded: the texts of the event loop; nil if the caller runs on another thread.
  /// - Throws: the error of the reply.
  func answer(
    _ reply: Reply, isEmptyObject: Bool = false, _ encoded: EncodedNodes? = nil
  ) throws(WireError) -> HTTPAnswer {
    switch reply {
    case .failure(let error): throw error
    case .json(let json): return .json(json)
    case .value(let node, let style, let etag, let bytes):
      var answer = self.answer([.node(node, style)], bytes: bytes, encoded)
      if let etag { answer.fields[.eTag] = etag }
      return answer
    case .members(let members, let style, let bytes):
      if members.isEmpty, isEmptyObject { return .json([:]) }
      return self.answer([.members(members[...], style)], bytes: bytes, encoded)
    case .mismatch(let node, let etag, let style, let bytes):
      var answer = self.answer([.node(node, style)], bytes: bytes)
      answer.status = .preconditionFailed
      answer.fields[.eTag] = etag
      return answer
    case .post, .entries, .subscribed:
      throw WireError(.internalError, "the server made a mistake; its log says more")
    }
  }

  /// Returns the response with JSON, which is sent in pieces if it is long.
  ///
  /// - Parameters:
  ///   - bytes: about the bytes of the values.
  ///   - encoded: the texts of the event loop; nil if the caller runs on another thread.
  func answer(
    _ parts: [LinePieces.Part], bytes: ValueBytes, _ encoded: EncodedNodes? = nil
  ) -> HTTPAnswer {
    var pieces = LinePieces(bytes: bytes, parts: parts)
    guard bytes.json > min(operations.limits.wholeReplyBytesMax, 64 * 1024) else {
      return .json { output in
        if let encoded { return encoded.append(parts, to: &output) }
        while !pieces.isDone { pieces.write(to: &output, bytes: 64 * 1024) }
      }
    }
    var answer = HTTPAnswer()
    answer.fields[.contentType] = HTTPAnswer.jsonType
    answer.body = .pieces(pieces)
    return answer
  }
}

extension Reply {
  /// The bytes of the value or members, or a little more; 0 for another reply.
  fileprivate var bytes: Int {
    switch self {
    case .value(_, _, _, let bytes), .members(_, _, let bytes): bytes.json
    case .failure, .json, .post, .entries, .mismatch, .subscribed: 0
    }
  }

  /// The reply with `true` for each child, as official servers answer a shallow read.
  fileprivate var withoutLeaves: Reply {
    guard case .members(let members, let style, let bytes) = self else { return self }
    return .members(members.map { ($0.key, true) }, style, bytes: bytes)
  }
}

extension Responder.Parsed {
  private static let etagField = HTTPField.Name("X-Firebase-ETag")

  /// Whether the client asks for the ETag of the location.
  var wantsETag: Bool {
    Self.etagField.flatMap { fields[$0] }?.asciiLowercased == "true"
  }
}

extension HTTPAnswer {
  /// Returns the response in the form that the request asks for.
  func printed(_ printing: RequestOptions.Printing) -> HTTPAnswer {
    guard status == .ok else { return self }
    var answer = self
    switch printing {
    case .compact: break
    case .pretty: answer.isPretty = true
    case .silent:
      answer.status = .noContent
      answer.body = .none
      answer.fields[.contentType] = nil
    }
    return answer
  }
}

extension String {
  /// The text as the name of a file in a field of a response: without quotes and invisible characters.
  fileprivate var fileName: String {
    let kept = unicodeScalars.prefix(255).map { scalar in
      scalar.isASCII && scalar.value >= 0x20 && scalar.value != 0x7F && scalar != "\""
        && scalar != "\\" && scalar != "/" ? scalar : "_"
    }
    var text = String.UnicodeScalarView()
    text.append(contentsOf: kept)
    return String(text)
  }
}

extension Responder {
  /// Returns the result of `body`; nil if it takes longer than a time, after which its task is cancelled.
  ///
  /// - Parameter milliseconds: the time; nil for no bound.
  private func withDeadline<R: Sendable>(
    _ milliseconds: Int64?, _ body: @escaping @Sendable () async -> R
  ) async -> R? {
    guard let milliseconds else { return await body() }
    let first = FirstResult<R?>()
    let task = Task { first.set(await body()) }
    let timer = connection.channel.eventLoop.scheduleTask(in: .milliseconds(milliseconds)) {
      first.set(nil)
      task.cancel()
    }
    defer { timer.cancel() }
    return await withTaskCancellationHandler {
      await first.value
    } onCancel: {
      task.cancel()
    }
  }
}

/// The first of several results, for one task that waits for it. Safe to use from any thread.
private final class FirstResult<R: Sendable>: Sendable {
  private enum State {
    case empty
    case awaited(CheckedContinuation<R, Never>)
    case set(R)
    case taken
  }

  private let state = Mutex(State.empty)

  /// Sets the result, unless there is one.
  func set(_ result: R) {
    let waiter: CheckedContinuation<R, Never>? = state.withLock { state in
      switch state {
      case .empty: state = .set(result)
      case .awaited(let waiter):
        state = .taken
        return waiter
      case .set, .taken: break
      }
      return nil
    }
    waiter?.resume(returning: result)
  }

  /// The result, when there is one. Only one task may ask for it, once.
  var value: R {
    get async {
      await withCheckedContinuation { continuation in
        let result: R? = state.withLock { state in
          guard case .set(let result) = state else {
            state = .awaited(continuation)
            return nil
          }
          state = .taken
          return result
        }
        if let result { continuation.resume(returning: result) }
      }
    }
  }
}
