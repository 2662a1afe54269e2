internal import CanopyEvents
internal import CanopySession
internal import CanopyTree
internal import CanopyWire
internal import HTTPTypes
internal import HummingbirdCore
internal import NIOCore

/// Writes. A response follows when the write is durable.
extension Responder {
  /// The data of a write, which its response repeats.
  struct WrittenData {
    /// The value of a PUT or POST.
    var value = WriteValue(.absent)
    /// The changes of a PATCH.
    var updates: [CanopyWire.Request.Update] = []
    /// The bytes of the data.
    var bytes = ValueBytes()

    var hasServerValues: Bool {
      !value.serverValues.isEmpty || updates.contains { !$0.value.serverValues.isEmpty }
    }
  }

  private typealias Request = CanopyWire.Request

  /// Reads and decodes the data of a PUT, PATCH, POST or DELETE. It is the same in every namespace.
  func writtenData(
    of request: Parsed, at location: Location, _ options: RequestOptions, as identity: Identity,
    _ body: inout RequestBodyReader, _ writer: borrowing ResponseWriter
  ) async throws -> WrittenData {
    guard !options.get.hasQuery, !options.get.isShallow else {
      throw WireError(.badRequest, "a write cannot have a query or shallow")
    }
    try check(request, at: location)
    var data = WrittenData()
    switch request.method {
    case .put, .post:
      (data.value, data.bytes) = try await decode(.value, request, as: identity, &body, writer)
    case .patch:
      (data.updates, data.bytes) = try await decode(.updates, request, as: identity, &body, writer)
    default: break
    }
    return data
  }

  /// Makes a write in the namespace of this responder, and answers it.
  func write(
    _ data: WrittenData, _ request: Parsed, at location: Location, _ options: RequestOptions,
    as identity: Identity
  ) async throws -> HTTPAnswer {
    if let bytesMax = options.writtenBytesMax {
      var places = [location]
      if request.method == .patch {
        places = data.updates.map { location.path.appending($0.location) }
      } else if request.method == .post {
        // The child is new.
        places = []
      }
      let isTooLarge = try await operations.exceeds(
        bytesMax, writing: [data.value.node] + data.updates.map(\.value.node), at: places,
        as: identity,
        turns: connection.turns)
      guard !isTooLarge else {
        throw WireError(
          .badRequest,
          "Data to write exceeds the maximum size that can be modified with a single request.")
      }
    }
    let work = WorkBeforeWrite()
    let reply: Reply = try await withTaskCancellationHandler {
      try await withCheckedThrowingContinuation { continuation in
        let begun: Void? = connection.unlessLost {
          begin(request, at: location, data, as: identity, after: work) {
            continuation.resume(returning: $0)
          }
        }
        // The write is not submitted.
        if begun == nil { continuation.resume(throwing: ConnectionEnds()) }
      }
    } onCancel: {
      work.cancel()
    }
    if case .mismatch = reply { return try answer(reply) }
    if case .failure(let error) = reply { throw error }
    let answer = try await answer(data, reply, request, at: location, as: identity)
    return answer.printed(options.printing)
  }

  /// Begins a write that needs no task, and does not take long.
  ///
  /// - Parameters:
  ///   - body: the whole body of the request.
  ///   - completion: called once, on any thread, when the write is durable or refused.
  /// - Returns: a closure that returns the response with the reply; nil if the write needs a task, and has not begun.
  func beginShortWrite(
    _ request: Parsed, at location: Location, _ options: RequestOptions, as identity: Identity,
    _ body: ByteBuffer, completion: @escaping @Sendable (Reply) -> Void
  ) throws -> ((Reply) throws -> HTTPAnswer)? {
    // The response to a condition that is not met has the present value, which may be long.
    guard body.readableBytes < Operations.longTextBytes, request.fields[.ifMatch] == nil,
      body.readableBytes <= operations.limits.writeBytesMax, options.writtenBytesMax == nil,
      !options.get.hasQuery, !options.get.isShallow
    else { return nil }
    try check(request, at: location)
    var data = WrittenData()
    switch request.method {
    case .put, .post: (data.value, data.bytes) = try decode(.value, body)
    case .patch: (data.updates, data.bytes) = try decode(.updates, body)
    default: break
    }
    guard !data.hasServerValues, data.updates.count <= Operations.locationsMadeAtOnceMax else {
      return nil
    }
    begin(request, at: location, data, as: identity, completion: completion)
    return { reply in
      connection.charge(0)
      if case .failure(let error) = reply { throw error }
      var answer = try shortAnswer(data, reply, request)
      if request.method == .put, request.wantsWrittenETag {
        answer.fields[.eTag] = data.value.node.etag
      }
      return answer.printed(options.printing)
    }
  }

  /// Throws the error of a write that cannot be made.
  private func check(_ request: Parsed, at location: Location) throws(WireError) {
    switch request.method {
    case .patch where location.isPriority, .post where location.isPriority:
      throw WireError(.invalidPath, "a priority has no children; set it with PUT")
    case .post where request.fields[.ifMatch] != nil:
      throw WireError(.badRequest, "POST cannot have if-match: it always adds a child")
    default: break
    }
  }

  /// Begins a write. `completion` gets its reply, on any thread.
  ///
  /// - Parameter work: the work before the writer gets the write; nil if there is none.
  private func begin(
    _ request: Parsed, at location: Location, _ data: WrittenData, as identity: Identity,
    after work: WorkBeforeWrite? = nil, completion: @escaping @Sendable (Reply) -> Void
  ) {
    let etag = request.fields[.ifMatch]
    let write: WriteRequest
    switch request.method {
    case .patch:
      if let etag {
        return operations.update(
          location.path, data.updates, ifMatch: etag, as: identity, from: connection.address,
          turns: connection.turns, after: work, completion: completion)
      }
      write = .tree(.update(location.path, data.updates))
    case .post: write = .push(location.path, data.value)
    default:
      write = .tree(
        etag.map { .compareAndSet(location, etag: $0, data.value) } ?? .set(location, data.value))
    }
    operations.write(
      write, as: identity, from: connection.address, turns: connection.turns, after: work,
      completion: completion)
  }

  // MARK: The response

  /// Returns the response to a write.
  private func answer(
    _ data: WrittenData, _ reply: Reply, _ request: Parsed, at location: Location,
    as identity: Identity
  ) async throws -> HTTPAnswer {
    switch request.method {
    case .put:
      // The client knows its own data, but not the result of server values. Another write may have followed, so the ETag
      // is the one of the data in the response.
      if data.hasServerValues, let present = await present(at: location, request, as: identity) {
        return present
      }
      var answer = try shortAnswer(data, reply, request)
      if request.wantsWrittenETag, !data.hasServerValues {
        answer.fields[.eTag] = await etag(of: data.value.node)
      }
      return answer
    case .patch:
      var written = data
      for (index, update) in data.updates.enumerated() where !update.value.serverValues.isEmpty {
        let place = location.path.appending(update.location)
        let (reply, _) = try await read(
          .get(place, GetOptions()), at: place, timeout: nil, as: identity)
        if case .value(let present, _, _, let presentBytes) = reply {
          written.updates[index].value = WriteValue(present)
          written.bytes += presentBytes
        }
        // Later writes may have made the values large.
        guard written.bytes.json <= operations.limits.replyBytesMax else {
          throw WireError(
            .tooLarge,
            "the update was made, but its values are larger than a response may be; read them one by one"
          )
        }
        connection.charge(written.bytes.memory)
      }
      return try shortAnswer(written, reply, request)
    default: return try shortAnswer(data, reply, request)
    }
  }

  /// Returns the response to a write, with the data as the client sent it and without the ETag of a value.
  private func shortAnswer(
    _ data: WrittenData, _ reply: Reply, _ request: Parsed
  ) throws(WireError) -> HTTPAnswer {
    switch request.method {
    case .put: return answer([.node(data.value.node, .plain)], bytes: data.bytes)
    case .patch:
      var parts: [LinePieces.Part] = []
      // Each value is a part of its own, which is encoded in pieces. So the braces and names are parts as well.
      for update in data.updates {
        let isFirst = parts.isEmpty
        parts.append(
          .text {
            $0.append(isFirst ? "{" : ",")
            $0.append(string: update.location.text)
            $0.append(":")
          })
        parts.append(.node(update.value.node, .plain))
      }
      let isEmpty = parts.isEmpty
      parts.append(.text { $0.append(isEmpty ? "{}" : "}") })
      return answer(parts, bytes: data.bytes)
    case .post:
      guard case .json(.object(let members)) = reply,
        let name = members.first(where: { $0.0 == "key" })?.1
      else { throw WireError(.internalError, "the server made a mistake; its log says more") }
      return .json(["name": name])
    default:
      var answer = HTTPAnswer.json(.null)
      if request.wantsWrittenETag { answer.fields[.eTag] = Node.absent.etag }
      return answer
    }
  }

  /// Returns the ETag of data that was written; nil if it cannot be computed now, because the write is done.
  private func etag(of node: Node) async -> String? {
    guard !node.fits(bytes: Operations.longTextBytes) else { return node.etag }
    return try? await operations.etag(of: node, connection.turns)
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

  /// A form of the body of a write.
  fileprivate struct BodyForm<Data: Sendable>: Sendable {
    /// Begins the error for a body that cannot be decoded.
    let sentence: String
    let decode: @Sendable (UnsafeRawBufferPointer, Limits, DecodingPause) throws(TreeError) -> Data
    /// Returns the bytes of the locations and server values in the data.
    let pathBytes: @Sendable (Data) -> Int
  }

  /// Reads and decodes the body of a request, and charges the memory that the data takes. Returns the data and its
  /// bytes. A long body is not decoded if the quotas refuse all writes of the caller.
  private func decode<Data>(
    _ form: BodyForm<Data>, _ request: Parsed, as identity: Identity,
    _ body: inout RequestBodyReader, _ writer: borrowing ResponseWriter
  ) async throws -> (Data, ValueBytes) {
    let limits = operations.limits
    let bytes = try await body.collect(request.fields, upTo: limits.writeBytesMax, writer)
    guard bytes.readableBytes >= Operations.longTextBytes else {
      return try await inTurn { try decode(form, bytes) }
    }
    let charged = try admit(bytes)
    let result = try await operations.decodeBeside(
      bytes: bytes.readableBytes, connection.turns
    ) { [operations, connection] pause in
      // Other bodies may have been written meanwhile.
      try operations.checkQuotas(of: identity, at: connection.address, connection.turns)
      return form.result(bytes, limits, pausing: DecodingPause(pause))
    }
    return try finish(result, form, bytes, charged)
  }

  /// Decodes a short body, and charges the memory that the data takes. Returns the data and its bytes.
  private func decode<Data>(
    _ form: BodyForm<Data>, _ body: ByteBuffer
  ) throws -> (Data, ValueBytes) {
    let charged = try admit(body)
    return try finish(form.result(body, operations.limits), form, body, charged)
  }

  /// Charges a body and the data in it before it is decoded, and returns the charged bytes.
  private func admit(_ body: ByteBuffer) throws -> Int {
    let bytes =
      body.storageCapacity + body.withUnsafeReadableBytes { Request.memoryBytes(text: $0) }
    try connection.admit(bytes)
    return bytes
  }

  private func finish<Data>(
    _ result: Result<Data, TreeError>, _ form: BodyForm<Data>, _ body: ByteBuffer, _ charged: Int
  ) throws(WireError) -> (Data, ValueBytes) {
    switch result {
    case .success(let data):
      let bytes = charged + form.pathBytes(data)
      connection.charge(bytes)
      return (data, ValueBytes(json: body.readableBytes, memory: bytes))
    case .failure(.tooLarge(let reason)): throw WireError(.tooLarge, reason)
    case .failure(let error):
      throw WireError(.invalidData, "\(form.sentence) (\(error.sentence))")
    }
  }
}

extension Responder.BodyForm {
  /// Decodes a body.
  fileprivate func result(
    _ body: ByteBuffer, _ limits: Limits, pausing pause: DecodingPause = .none
  ) -> Result<Data, TreeError> {
    body.withUnsafeReadableBytes { bytes in
      Result { () throws(TreeError) in try decode(bytes, limits, pause) }
    }
  }
}

extension Responder.BodyForm where Data == WriteValue {
  /// The value of a PUT or POST.
  fileprivate static var value: Self {
    Self(
      sentence: "Invalid data; couldn't parse JSON object, array, or value.",
      decode: { bytes, limits, pause throws(TreeError) in
        try WriteValue(json: bytes, limits: limits, pausing: pause)
      },
      pathBytes: { $0.pathBytes })
  }
}

extension Responder.BodyForm where Data == [CanopyWire.Request.Update] {
  /// The changes of a PATCH.
  fileprivate static var updates: Self {
    Self(
      sentence:
        "Invalid data; couldn't parse JSON object. Are you sending a JSON object with valid key names?",
      decode: { bytes, limits, pause throws(TreeError) in
        try JSONReader.readUpdate(json: bytes, limits: limits, pausing: pause).map {
          CanopyWire.Request.Update(location: $0, value: $1)
        }
      }, pathBytes: { $0.pathBytes })
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
