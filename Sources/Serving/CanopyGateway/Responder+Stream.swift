internal import CanopySession
internal import CanopyTree
internal import CanopyWire
internal import HTTPTypes
internal import HummingbirdCore
internal import NIOCore

/// Event streams.
extension Responder {
  /// Begins an event stream.
  func stream(
    _ request: Parsed, at location: Location, _ options: RequestOptions, as identity: Identity
  ) async throws -> Outcome {
    guard !options.get.isShallow, !options.get.isExport, !location.isPriority else {
      throw WireError(
        .badRequest, "an event stream cannot have shallow or format=export, nor be of a priority")
    }
    // The administrator may listen in an order for which there is no index.
    if case .administrator = identity { await operations.prepare(.get(location, options.get)) }
    let stream = try await EventStream.Handle.begin(
      location.path, options.get.query, as: identity, on: connection, in: operations, lease,
      keepAliveMilliseconds: configuration.keepAliveMilliseconds)
    return .stream(stream, isOfPage: request.fields[.origin] != nil)
  }

  /// Sends the events of a stream until it ends.
  ///
  /// - Parameter isOfPage: whether a web page has asked.
  func send(
    _ stream: EventStream.Handle, isOfPage: Bool, _ writer: consuming ResponseWriter
  ) async throws {
    connection.use(stream)
    defer {
      connection.use(nil)
      stream.end()
    }
    var answer = HTTPAnswer()
    answer.fields[.contentType] = EventStream.contentType
    answer.fields[.cacheControl] = "no-cache"
    if isOfPage { answer.allowOrigins() }
    var body = try await writer.writeHead(
      HTTPResponse(status: answer.status, headerFields: answer.fields))
    while let bytes = await stream.next() { try await body.write(bytes) }
    try await body.finish(nil)
  }
}
