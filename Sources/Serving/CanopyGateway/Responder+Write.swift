internal import CanopyEvents
internal import CanopySession
internal import CanopyTree
internal import CanopyWire
internal import HTTPTypes
internal import HummingbirdCore
internal import NIOCore

/// Writes. A response follows when the write is durable.
extension Responder {
  /// The data that the response to a write repeats.
  private enum Echo {
    case null
    case value(WriteValue)
    case updates([Request.Update])
    case name
  }

  private typealias Request = CanopyWire.Request

  /// Answers a PUT, PATCH, POST or DELETE.
  func write(
    _ request: Parsed, at location: Location, _ options: RequestOptions, as identity: Identity,
    _ body: inout RequestBodyReader, _ writer: borrowing ResponseWriter
  ) async throws -> HTTPAnswer {
    guard !options.get.hasQuery, !options.get.isShallow else {
      throw WireError(.badRequest, "a write goes with no query and not with shallow")
    }
    let etag = request.fields[.ifMatch]
    var value = WriteValue(.absent)
    var updates: [Request.Update] = []
    switch request.method {
    case .put, .post: value = try await decodeValue(request, &body, writer)
    case .patch:
      guard !location.isPriority else {
        throw WireError(.invalidPath, "a priority has no children; set it with PUT")
      }
      updates = try await decodeUpdates(request, &body, writer)
    default: break
    }
    if let bytesMax = options.writtenBytesMax {
      var places = [location]
      if request.method == .patch {
        places = updates.map { location.path.appending($0.location) }
      } else if request.method == .post {
        // The child is new.
        places = []
      }
      let isTooLarge = try await operations.exceeds(
        bytesMax, writing: [value.node] + updates.map(\.value.node), at: places, as: identity,
        turns: connection.turns)
      guard !isTooLarge else {
        throw WireError(
          .badRequest,
          "Data to write exceeds the maximum size that can be modified with a single request.")
      }
    }
    let reply: Reply
    let echo: Echo
    switch request.method {
    case .patch:
      echo = .updates(updates)
      if let etag {
        reply = try await self.reply { completion in
          operations.update(
            location.path, updates, ifMatch: etag, as: identity, from: connection.address,
            turns: connection.turns, completion: completion)
        }
      } else {
        reply = try await write(.tree(.update(location.path, updates)), as: identity)
      }
    case .post:
      guard etag == nil, !location.isPriority else {
        throw WireError(.badRequest, "POST goes with no if-match, and not with a priority")
      }
      echo = .name
      reply = try await write(.push(location.path, value), as: identity)
    default:
      echo = request.method == .put ? .value(value) : .null
      let write: TreeWrite =
        if let etag { .compareAndSet(location, etag: etag, value) } else { .set(location, value) }
      reply = try await self.write(.tree(write), as: identity)
    }
    if case .mismatch = reply { return try answer(reply) }
    if case .failure(let error) = reply { throw error }
    var answer = try await answer(
      echo, bytes: body.byteCount, reply, request, at: location, as: identity)
    answer = answer.printed(options.printing)
    return answer
  }

  private func write(_ request: WriteRequest, as identity: Identity) async throws -> Reply {
    try await reply { completion in
      operations.write(
        request, as: identity, from: connection.address, turns: connection.turns,
        completion: completion)
    }
  }

  /// Submits a write, and returns the reply when the write is durable.
  ///
  /// - Throws: an error if the connection is gone. The write is not submitted then.
  private func reply(
    _ submit: (@escaping @Sendable (Reply) -> Void) -> Void
  ) async throws -> Reply {
    try await withCheckedThrowingContinuation { continuation in
      let submitted: Void? = connection.unlessLost {
        submit { continuation.resume(returning: $0) }
      }
      if submitted == nil { continuation.resume(throwing: ConnectionEnds()) }
    }
  }

  // MARK: The response

  /// Returns the response to a write.
  ///
  /// - Parameter bytes: the bytes of the data as the client sent it.
  private func answer(
    _ echo: Echo, bytes: Int, _ reply: Reply, _ request: Parsed, at location: Location,
    as identity: Identity
  ) async throws -> HTTPAnswer {
    switch echo {
    case .null:
      var answer = HTTPAnswer.json { $0.append("null") }
      if request.wantsWrittenETag { answer.fields[.eTag] = Node.absent.etag }
      return answer
    case .name:
      guard case .json(.object(let members)) = reply,
        let name = members.first(where: { $0.0 == "key" })?.1
      else { throw WireError(.internalError, "the server made a mistake; its log says more") }
      return .json { output in
        output.append("{\"name\":")
        name.append(to: &output)
        output.append("}")
      }
    case .value(let value):
      // The client knows its own data, but not the result of server values. Another write may have followed, so the ETag
      // is the one of the data in the response.
      if !value.serverValues.isEmpty,
        let present = await present(at: location, request, as: identity)
      {
        return present
      }
      var answer = self.answer([.node(value.node, .plain)], bytes: bytes)
      if request.wantsWrittenETag, value.serverValues.isEmpty {
        answer.fields[.eTag] = await etag(of: value.node)
      }
      return answer
    case .updates(let updates):
      var parts: [LinePieces.Part] = []
      for update in updates {
        var node = update.value.node
        if !update.value.serverValues.isEmpty {
          let place = location.path.appending(update.location)
          let (reply, _) = try await read(
            .get(place, GetOptions()), at: place, timeout: nil, as: identity)
          if case .value(let present, _, _, _) = reply { node = present }
        }
        parts.append(
          .text {
            $0.append(parts.isEmpty ? "{" : ",")
            $0.append(string: update.location.text)
            $0.append(":")
          })
        parts.append(.node(node, .plain))
      }
      parts.append(.text { $0.append(parts.isEmpty ? "{}" : "}") })
      return self.answer(parts, bytes: bytes)
    }
  }

  /// Returns the ETag of data that was written; nil if it cannot be computed now, because the write is done.
  private func etag(of node: Node) async -> String? {
    guard !node.fits(bytes: Operations.longTextBytes) else { return node.etag }
    return try? await operations.beside(connection.turns) { node.etag }
  }

  /// Returns the response with the present value of a location, if the caller may read it.
  private func present(
    at location: Location, _ request: Parsed, as identity: Identity
  ) async -> HTTPAnswer? {
    var options = GetOptions()
    options.wantsETag = request.wantsWrittenETag
    guard
      let (reply, _) = try? await read(
        .get(location, options), at: location, timeout: nil, as: identity)
    else { return nil }
    return try? answer(reply)
  }

  // MARK: Decoding

  private func decodeValue(
    _ request: Parsed, _ body: inout RequestBodyReader, _ writer: borrowing ResponseWriter
  ) async throws -> WriteValue {
    let limits = operations.limits
    let bytes = try await body.collect(request.fields, upTo: limits.writeBytesMax, writer)
    return try await decode(
      bytes, "Invalid data; couldn't parse JSON object, array, or value."
    ) { bytes throws(TreeError) in
      try WriteValue(json: bytes, limits: limits)
    } pathBytes: {
      $0.pathBytes
    }
  }

  private func decodeUpdates(
    _ request: Parsed, _ body: inout RequestBodyReader, _ writer: borrowing ResponseWriter
  ) async throws -> [Request.Update] {
    let limits = operations.limits
    let bytes = try await body.collect(request.fields, upTo: limits.writeBytesMax, writer)
    return try await decode(
      bytes,
      "Invalid data; couldn't parse JSON object. Are you sending a JSON object with valid key names?"
    ) { bytes throws(TreeError) in
      try JSONReader.readUpdate(json: bytes, limits: limits).map {
        Request.Update(location: $0, value: $1)
      }
    } pathBytes: {
      $0.pathBytes
    }
  }

  /// Decodes a body, and charges the memory that the result takes.
  ///
  /// - Parameters:
  ///   - sentence: begins the error for a body that cannot be decoded.
  ///   - pathBytes: returns the bytes of the locations and server values in the result.
  private func decode<R: Sendable>(
    _ body: ByteBuffer, _ sentence: String,
    _ decode: @escaping @Sendable (UnsafeRawBufferPointer) throws(TreeError) -> R,
    pathBytes: (R) -> Int
  ) async throws -> R {
    let bytes = body.capacity + body.withUnsafeReadableBytes { Request.memoryBytes(text: $0) }
    connection.charge(bytes)
    let decodeAll = { @Sendable () -> Result<R, TreeError> in
      body.withUnsafeReadableBytes { bytes in
        Result { () throws(TreeError) in try decode(bytes) }
      }
    }
    let result =
      body.readableBytes < Operations.longTextBytes
      ? decodeAll() : try await operations.beside(connection.turns) { decodeAll() }
    switch result {
    case .success(let value):
      connection.charge(bytes + pathBytes(value))
      return value
    case .failure(.tooLarge(let reason)): throw WireError(.tooLarge, reason)
    case .failure(let error): throw WireError(.invalidData, "\(sentence) (\(error.sentence))")
    }
  }
}

extension Responder.Parsed {
  /// Whether the response to a write has an ETag: if the client asks for it, or made the write depend on one.
  fileprivate var wantsWrittenETag: Bool { wantsETag || fields[.ifMatch] != nil }
}

extension Path {
  /// Returns the location below this path.
  fileprivate func appending(_ location: Location) -> Location {
    Location(appending(location.path), isPriority: location.isPriority)
  }
}
