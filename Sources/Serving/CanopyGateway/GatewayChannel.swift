internal import CanopyEvents
internal import CanopySession
internal import HTTPTypes
internal import HummingbirdCore
internal import Logging
internal import NIOCore
internal import NIOHTTP1
internal import NIOHTTPTypes
internal import NIOHTTPTypesHTTP1

/// The connections of the HTTP port: their handlers, and the loop that answers their requests.
///
/// Another protocol on the same port is added here: `setup` decides about the handlers of a connection.
struct GatewayChannel: ServerChildChannel {
  /// An accepted connection.
  struct Value: ServerChildChannelValue {
    /// The requests and responses; nil for a connection that is refused.
    let http: NIOAsyncChannel<HTTPRequestPart, HTTPResponsePart>?
    let connection: GatewayConnection

    var channel: any Channel { connection.channel }
  }

  /// Returns a connection without handlers, which is refused.
  func refused(_ channel: any Channel) -> Value {
    Value(
      http: nil,
      connection: GatewayConnection(channel, operations, loops.value(of: channel.eventLoop)))
  }

  private let operations: Operations
  private let configuration: Gateway.Configuration
  private let loops: LoopLocals<NIOLoopBoundBox<GatewayLoop>>

  init(_ operations: Operations, configuration: Gateway.Configuration, logger: Logger) {
    self.operations = operations
    self.configuration = configuration
    loops = LoopLocals { loop in
      .makeBoxSendingValue(GatewayLoop(operations, loop: loop), eventLoop: loop)
    }
  }

  func setup(channel: any Channel, logger: Logger) -> EventLoopFuture<Value> {
    channel.eventLoop.makeCompletedFuture {
      let pipeline = channel.pipeline.syncOperations
      var decoder = NIOHTTPDecoderLimitConfiguration()
      decoder.maxHeaderListSize = GatewayChannel.headBytesMax
      decoder.maxHeaderFieldSize = GatewayChannel.headBytesMax
      decoder.maxHeaderFieldCount = 256
      try pipeline.configureHTTPServerPipeline(
        // Requests are taken one after the other; an error of the parser is answered by the loop.
        withPipeliningAssistance: false, withErrorHandling: false,
        withOutboundHeaderValidation: false, withEncoderConfiguration: .init(),
        withDecoderLimitConfiguration: decoder)
      try pipeline.addHandler(HTTP1ToHTTPServerCodec(secure: false))
      let connection = GatewayConnection(channel, operations, loops.value(of: channel.eventLoop))
      try pipeline.addHandler(
        ConnectionGuard(configuration.patience) { isLost in
          if isLost { connection.lose() } else { connection.quiesce() }
        })
      try pipeline.addHandler(
        HTTPConnectionStateHandler(
          idleTimeout: .seconds(configuration.patience.idleSeconds), logger: logger))
      return Value(
        http: try NIOAsyncChannel(
          wrappingChannelSynchronously: channel,
          configuration: .init(isOutboundHalfClosureEnabled: true)), connection: connection)
    }
  }

  /// The most bytes of the fields of a request.
  private static let headBytesMax = 64 * 1024

  func handle(value: Value, logger: Logger) async {
    guard let connection = value.http else { return }
    let responder = Responder(operations, configuration, value.connection)
    let http = HTTP1Channel(responder: { request, writer, _ in
      try await responder.respond(to: request, writer)
    })
    await withTaskCancellationHandler {
      await http.handle(value: connection, logger: logger)
    } onCancel: {
      value.channel.close(promise: nil)
    }
    value.connection.end()
  }
}

/// The things that the connections of one event loop share. Use it on that loop only.
final class GatewayLoop {
  let inbox: LoopInbox
  let hub: EventHub

  init(_ operations: Operations, loop: any EventLoop) {
    let inbox = LoopInbox(operations.engine, loop: loop)
    let hub = EventHub(inbox, engine: operations.engine, limits: operations.limits)
    self.inbox = inbox
    self.hub = hub
    inbox.onWakeUp {
      hub.drainSoon()
      inbox.release()
    }
  }
}
