internal import CanopyTree
internal import CanopyWire
internal import HTTPTypes
internal import HummingbirdCore
internal import NIOCore

/// Collects the body of a request, up to a bound.
struct RequestBodyReader {
  private var parts: RequestBody.AsyncIterator
  private let connection: GatewayConnection
  /// Whether the body exceeds the bound. The rest of it was not read.
  private(set) var isTooLarge = false

  init(_ body: RequestBody, _ connection: GatewayConnection) {
    parts = body.makeAsyncIterator()
    self.connection = connection
  }

  /// Returns the whole body. Charges its bytes to the connection.
  ///
  /// - Throws: `WireError` if it exceeds the bound; another error if the connection ends.
  mutating func collect(
    _ fields: HTTPFields, upTo bytesMax: Int, _ writer: borrowing ResponseWriter
  ) async throws -> ByteBuffer {
    // The decoder takes lengths of 64 bits.
    if let length = fields[.contentLength].flatMap({ UInt64($0) }), length > bytesMax {
      throw tooLarge(bytesMax)
    }
    // A client that asks first waits for this before it sends the body.
    if fields[.expect]?.asciiLowercased == "100-continue" {
      try await writer.writeInformationalHead(HTTPResponse(status: .continue))
    }
    var body = ByteBuffer()
    while let part = try await parts.next() {
      connection.tookBody(part.storageCapacity)
      guard body.readableBytes + part.readableBytes <= bytesMax else { throw tooLarge(bytesMax) }
      body.writeImmutableBuffer(part)
      connection.charge(body.capacity)
    }
    return body
  }

  private mutating func tooLarge(_ bytesMax: Int) -> WireError {
    isTooLarge = true
    return WireError(
      .tooLarge, "the body of a request may have at most \(bytesMax) bytes; write in smaller parts")
  }

  /// Reads the rest of the body and drops it.
  mutating func drop() async {
    while let part = try? await parts.next() { connection.tookBody(part.storageCapacity) }
  }
}
