internal import CanopyEvents
package import CanopySession
package import NIOCore
internal import NIOHTTP1

/// The handlers that turn the bytes of a connection into requests, on a channel without the other handlers of a server.
///
/// The check of this decoder with random bytes uses them (`CanopyFuzz`). Use it on the channel's event loop only.
package struct RequestDecoding {
  /// The most fields of a request.
  package static let fieldsMax = RequestInput.fieldsMax

  private let connection: GatewayConnection

  /// Adds the handlers to a channel.
  ///
  /// - Parameter last: gets the parts of requests (`HTTPRequestPart` of HTTPTypes) and writes the responses.
  package init(
    _ channel: any Channel, _ operations: Operations, _ last: any ChannelHandler & Sendable
  ) throws {
    let loop = channel.eventLoop
    let turns = LoopTurns(loop: loop) { body in loop.assumeIsolated().execute { body() } }
    connection = GatewayConnection(
      channel, operations,
      .makeBoxSendingValue(GatewayLoop(operations, loop: loop, turns: turns), eventLoop: loop))
    connection.charge(0)
    let input = RequestInput(connection)
    let pipeline = channel.pipeline.syncOperations
    try pipeline.addHandlers([input, Self.decoder(), HTTPExchange(connection, input)])
    try pipeline.addHandlers([HTTPTypesCodec(isSecure: false), last])
  }

  /// Returns the decoder of the library, with the bounds of this server.
  static func decoder() -> ByteToMessageHandler<HTTPRequestDecoder> {
    ByteToMessageHandler(
      HTTPRequestDecoder(
        leftOverBytesStrategy: .forwardBytes, limitConfiguration: GatewayChannel.headLimits))
  }

  /// Ends everything that is kept for the connection. Call after the channel has closed.
  package func end() {
    connection.end()
  }
}
