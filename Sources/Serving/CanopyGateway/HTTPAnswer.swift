internal import CanopyEngine
internal import CanopyEvents
internal import CanopySession
internal import CanopyTree
internal import CanopyWire
internal import HTTPTypes
internal import HummingbirdCore
internal import NIOCore

/// A response: the status, the fields and the body.
struct HTTPAnswer {
  /// A body.
  enum Body {
    case none
    /// A body that is encoded already.
    case bytes(ByteBuffer)
    /// A body that is encoded piece by piece, as the client reads it.
    case pieces(LinePieces)
  }

  var status = HTTPResponse.Status.ok
  var fields = HTTPFields()
  var body = Body.none
  /// Whether the connection closes after the response.
  var closes = false
  /// Whether pages of every origin may read the response.
  var isForAllOrigins = true
  /// Whether the body, which is JSON, gets line breaks.
  var isPretty = false
  /// Whether the body and its fields have their final coding.
  var isCoded = false
  /// The code under which the response is counted; nil for the code that its status implies.
  var code: WireError.Code?

  /// Creates a response without a body.
  init(_ status: HTTPResponse.Status = .ok) {
    self.status = status
  }

  /// Creates a response with a body of JSON that `write` appends.
  static func json(
    _ status: HTTPResponse.Status = .ok, _ write: (inout JSONOutput) -> Void
  ) -> HTTPAnswer {
    var output = JSONOutput(capacity: 512)
    write(&output)
    var answer = HTTPAnswer(status)
    answer.fields[.contentType] = HTTPAnswer.jsonType
    answer.body = .bytes(output.withBytes { ByteBuffer(bytes: $0) })
    return answer
  }

  /// Creates a response with a small body of JSON.
  static func json(_ body: ReplyJSON) -> HTTPAnswer { json(.ok, body) }

  /// Creates a response with a status and a small body of JSON.
  static func json(_ status: HTTPResponse.Status, _ body: ReplyJSON) -> HTTPAnswer {
    json(status) { body.append(to: &$0) }
  }

  /// Creates the response for an error: an object with the sentence.
  static func failure(_ status: HTTPResponse.Status, _ sentence: String) -> HTTPAnswer {
    json(status, ["error": .text(sentence)])
  }

  /// Creates the response for an error of the server.
  static func failure(_ error: WireError) -> HTTPAnswer {
    var answer = uncounted(error)
    answer.code = error.code
    if let milliseconds = error.retryMilliseconds {
      // In whole seconds, so that the next try is not too early.
      let seconds = milliseconds / 1_000 + (milliseconds % 1_000 > 0 ? 1 : 0)
      answer.fields[.retryAfter] = String(max(1, seconds))
    }
    return answer
  }

  private static func uncounted(_ error: WireError) -> HTTPAnswer {
    switch error.code {
    // A refusal by the rules has no reason, and gets the words of the original. A refusal for another reason says why: for
    // example, that a user name is taken.
    case .permissionDenied where error == .denied: .failure(.unauthorized, "Permission denied")
    case .permissionDenied: .failure(.unauthorized, error.sentence)
    case .unauthenticated: .failure(.unauthorized, error.sentence)
    case .badRequest, .unknownVerb, .invalidPath, .invalidData, .invalidQuery:
      .failure(.badRequest, error.sentence)
    case .notFound: .failure(.notFound, error.sentence)
    case .conflict: .failure(.conflict, error.sentence)
    case .tooLarge: .failure(.contentTooLarge, error.sentence)
    case .quotaExceeded: .failure(.insufficientStorage, error.sentence)
    case .rateLimited: .failure(.tooManyRequests, error.sentence)
    case .overloaded, .unavailable: .failure(.serviceUnavailable, error.sentence)
    case .internalError: .failure(.internalServerError, error.sentence)
    }
  }

  /// The code under which the metrics count the response as an error; nil if they do not.
  ///
  /// The response to an ETag that does not match (412) is no error, as for a compare-and-set of the line protocol that
  /// finds another value.
  var errorCode: WireError.Code? {
    guard status.code >= 400, status != .preconditionFailed else { return nil }
    if let code { return code }
    return switch status.code {
    case 401: .unauthenticated
    case 403: .permissionDenied
    case 404: .notFound
    case 409: .conflict
    case 413: .tooLarge
    case 429: .rateLimited
    case 503: .unavailable
    case 507: .quotaExceeded
    case 500...: .internalError
    default: .badRequest
    }
  }

  static let jsonType = "application/json; charset=utf-8"

  /// The bytes of the response for a client that does not speak TLS.
  static let tlsNeeded = raw(WireError(.badRequest, "this port speaks TLS; use https"))

  /// Returns the bytes of a response for a connection without handlers, which then closes.
  static func raw(_ error: WireError) -> ByteBuffer {
    let answer = failure(error)
    guard case .bytes(let body) = answer.body else { return ByteBuffer() }
    var buffer = ByteBuffer(
      string: "HTTP/1.1 \(answer.status)\r\nContent-Type: \(jsonType)\r\n"
        + "Content-Length: \(body.readableBytes)\r\nConnection: close\r\n\r\n")
    buffer.writeImmutableBuffer(body)
    return buffer
  }
}

extension HTTPAnswer {
  /// The memory of a piece of a body.
  private static let pieceMemory = 64 * 1024
  /// The bytes from which on a piece is complete. A piece with its last member fits in its memory, unless its key is
  /// long.
  private static let pieceBytes = pieceMemory - 2 * 1024
  /// The bytes to which line breaks are added before the piece is looked at again. They may have a dozen times as many
  /// then.
  private static let prettyStepBytes = 1024

  /// Sends the response.
  ///
  /// - Parameters:
  ///   - acceptsGzip: whether the client takes a compressed body.
  ///   - turns: admit the connection of `group` to encode a piece, or to compress the body.
  ///   - charge: takes the bytes that the rest of the body makes the server hold.
  consuming func send(
    to writer: consuming ResponseWriter, acceptsGzip: Bool, in turns: TurnQueue,
    of group: TurnGroup, charge: (Int) -> Void
  ) async throws {
    guard case .pieces(var pieces) = body else {
      let (head, bytes) =
        isReady(acceptsGzip: acceptsGzip)
        ? whole(acceptsGzip: acceptsGzip)
        : try await turns.withTurn(of: group) { [self] in whole(acceptsGzip: acceptsGzip) }
      guard let bytes else {
        try await writer.writeResponse(head)
        return charge(0)
      }
      charge(bytes.storageCapacity)
      try await writer.write(response: head, body: ResponseBody(byteBuffer: bytes))
      return charge(0)
    }
    let (fields, gzip) = encoding(acceptsGzip: acceptsGzip)
    let gzipBytes = gzip == nil ? 0 : Gzip.memoryBytes
    // A client that reads nothing keeps the head waiting as well.
    charge(pieces.heldBytes + gzipBytes)
    var body = try await writer.writeHead(HTTPResponse(status: status, headerFields: fields))
    var pretty = PrettyJSON()
    while !pieces.isDone {
      charge(pieces.heldBytes + HTTPAnswer.pieceMemory + gzipBytes)
      let bytes = try await turns.withTurn(of: group) {
        var output = JSONOutput(capacity: HTTPAnswer.pieceBytes + 4096)
        if isPretty {
          HTTPAnswer.write(&pieces, &pretty, to: &output)
        } else {
          pieces.write(to: &output, bytes: HTTPAnswer.pieceBytes)
        }
        let bytes = output.withBytes { ByteBuffer(bytes: $0) }
        return gzip.map { $0.compress(bytes, isLast: pieces.isDone) } ?? bytes
      }
      // A long key, or line breaks and indentation, may make a piece longer.
      if bytes.storageCapacity > HTTPAnswer.pieceMemory {
        charge(pieces.heldBytes + bytes.storageCapacity + gzipBytes)
      }
      if bytes.readableBytes > 0 { try await body.write(bytes) }
    }
    try await body.finish(nil)
    charge(0)
  }

  /// Returns the head and the body of the response. Pieces are encoded together, so they must be short.
  consuming func whole(acceptsGzip: @autoclosure () -> Bool) -> (
    head: HTTPResponse, body: ByteBuffer?
  ) {
    let (encodedFields, gzip) = encoding(acceptsGzip: acceptsGzip())
    var fields = encodedFields
    var bytes: ByteBuffer
    switch body {
    case .none:
      // The response to HEAD may have the length of the body that GET gets.
      if status != .noContent, status != .notModified, fields[.contentLength] == nil {
        fields[.contentLength] = "0"
      }
      return (HTTPResponse(status: status, headerFields: fields), nil)
    case .bytes(let encoded): bytes = encoded
    case .pieces(var pieces):
      var output = JSONOutput(capacity: 4096)
      while !pieces.isDone { pieces.write(to: &output, bytes: HTTPAnswer.pieceBytes) }
      bytes = output.withBytes { ByteBuffer(bytes: $0) }
    }
    if isPretty { bytes = HTTPAnswer.pretty(bytes) }
    if let gzip { bytes = gzip.compress(bytes, isLast: true) }
    fields[.contentLength] = String(bytes.readableBytes)
    return (HTTPResponse(status: status, headerFields: fields), bytes)
  }

  /// Returns the fields of the response, and the compression of its body; nil for none.
  private func encoding(
    acceptsGzip: @autoclosure () -> Bool
  ) -> (fields: HTTPFields, gzip: Gzip?) {
    var fields = fields
    var gzip: Gzip?
    if isWorthCompressing {
      fields[.vary] = "Accept-Encoding"
      gzip = acceptsGzip() ? Gzip() : nil
      if gzip != nil { fields[.contentEncoding] = "gzip" }
    }
    if closes { fields[.connection] = "close" }
    return (fields, gzip)
  }

  /// Whether the body is encoded already, and is not to be compressed or to get line breaks.
  func isReady(acceptsGzip: @autoclosure () -> Bool) -> Bool {
    if case .pieces = body { return false }
    return !isPretty && !(isWorthCompressing && acceptsGzip())
  }

  /// Whether a compressed body would be much shorter.
  private var isWorthCompressing: Bool {
    if isCoded { return false }
    return switch body {
    case .none: false
    case .bytes(let bytes): bytes.readableBytes >= Gzip.bodyBytesMin
    case .pieces: true
    }
  }

  private static func pretty(_ bytes: ByteBuffer) -> ByteBuffer {
    var output = JSONOutput(capacity: 2 * bytes.readableBytes)
    var pretty = PrettyJSON()
    bytes.withUnsafeReadableBytes { pretty.append($0, to: &output) }
    return output.withBytes { ByteBuffer(bytes: $0) }
  }

  /// Writes the next piece with line breaks. It has about as many bytes as one without.
  private static func write(
    _ pieces: inout LinePieces, _ pretty: inout PrettyJSON, to output: inout JSONOutput
  ) {
    while !pieces.isDone, output.count < pieceBytes {
      var compact = JSONOutput(capacity: 2 * prettyStepBytes)
      pieces.write(to: &compact, bytes: prettyStepBytes)
      compact.withBytes { pretty.append($0, to: &output) }
    }
  }
}

extension HTTPResponse.Status {
  /// The user has no storage left for the data.
  fileprivate static let insufficientStorage = HTTPResponse.Status(
    code: 507, reasonPhrase: "Insufficient Storage")
}
