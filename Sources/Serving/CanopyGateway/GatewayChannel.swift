internal import CanopyEvents
internal import CanopyRealtime
internal import CanopySession
internal import CanopyTree
internal import HTTPTypes
internal import HummingbirdCore
internal import Logging
internal import NIOCore
internal import NIOHTTP1
internal import NIOHTTPTypes
internal import NIOWebSocket

/// The connections of the HTTP port: their handlers, and the loop that answers their requests.
///
/// The first request of a connection decides about its protocol. A request for a WebSocket at `/.ws` or `/line` hands
/// the connection to `RealtimeConnections`; all other connections speak HTTP to their end.
struct GatewayChannel: ServerChildChannel {
  /// The requests and responses of a connection.
  typealias HTTP = NIOAsyncChannel<HTTPRequestPart, HTTPResponsePart>

  /// An accepted connection.
  struct Value: ServerChildChannelValue {
    /// The requests and responses, when the first request has come; nil for a connection that has become a WebSocket.
    /// Fails if the connection ends before.
    let http: EventLoopFuture<HTTP?>
    let connection: GatewayConnection

    var channel: any Channel { connection.channel }
  }

  /// Returns a connection without handlers, which is refused.
  func refused(_ channel: any Channel) -> Value {
    Value(
      http: channel.eventLoop.makeFailedFuture(ChannelError.eof),
      connection: GatewayConnection(channel, operations, loops.value(of: channel.eventLoop)))
  }

  private let operations: Operations
  private let configuration: Gateway.Configuration
  private let loops: LoopLocals<NIOLoopBoundBox<GatewayLoop>>
  private let sockets: RealtimeConnections
  private let counters: HTTPMetrics

  /// - Parameters:
  ///   - turns: makes the turns of a loop; nil for those of `LoopTurns`.
  ///   - now: the clock by which turns end.
  init(
    _ operations: Operations, configuration: Gateway.Configuration, logger: Logger,
    turns: (@Sendable (any EventLoop) -> LoopTurns)? = nil,
    now: @escaping @Sendable () -> NIODeadline = { .now() }
  ) {
    self.operations = operations
    self.configuration = configuration
    var realtime = RealtimeConnections.Configuration()
    realtime.isEmulator = configuration.isEmulator
    realtime.allowedOrigins = configuration.allowedOrigins
    let sockets = RealtimeConnections(operations, configuration: realtime)
    self.sockets = sockets
    loops = LoopLocals { loop in
      .makeBoxSendingValue(
        GatewayLoop(
          operations, loop: loop, turns: turns?(loop), encoded: sockets.encoded.value(of: loop),
          now: now),
        eventLoop: loop)
    }
    counters = HTTPMetrics(in: operations.metrics)
  }

  func setup(channel: any Channel, logger: Logger) -> EventLoopFuture<Value> {
    channel.eventLoop.makeCompletedFuture {
      let connection = GatewayConnection(channel, operations, loops.value(of: channel.eventLoop))
      let http = channel.eventLoop.makePromise(of: HTTP?.self)
      let end = HeldInputEnd()
      let input = RequestInput(connection)
      let encoder = HTTPResponseEncoder()
      let first = FirstRequest(
        http, seconds: configuration.patience.idleSeconds, end: end, encoder: encoder
      ) {
        try addHTTP(connection, input, logger)
      }
      connection.charge(0)
      do {
        try add(first, end, input, encoder, to: channel, connection)
      } catch {
        http.fail(error)
        throw error
      }
      connection.enterList()
      return Value(http: http.futureResult, connection: connection)
    }
  }

  /// Adds the handlers that a connection has before its first request.
  private func add(
    _ first: FirstRequest, _ end: HeldInputEnd, _ input: RequestInput,
    _ encoder: HTTPResponseEncoder, to channel: any Channel, _ connection: GatewayConnection
  ) throws {
    let decoder = RequestDecoding.decoder()
    let pipeline = channel.pipeline.syncOperations
    let loop = connection.loop.value
    if let certificate = configuration.certificate {
      try certificate.addHandlers(
        to: channel, .http, refusal: HTTPAnswer.tlsNeeded, memory: operations.memory,
        turns: loop.turns, handshakeSeconds: configuration.patience.handshakeSeconds)
    }
    try pipeline.addHandler(
      ReadTurns(loop.turns, loop.work, operations.memory, operations.logger))
    let exchange = HTTPExchange(connection, input)
    let close = HeldClose(unreadSeconds: configuration.patience.unreadSeconds)
    try pipeline.addHandlers([end, close, input, encoder, decoder, exchange])
    try pipeline.addHandler(
      HTTPServerUpgradeHandler(
        upgraders: [upgrader(first, input, close, connection)], httpEncoder: encoder,
        extraHTTPHandlers: [decoder, exchange], upgradeCompletionHandler: { _ in }))
    try pipeline.addHandler(first)
  }

  /// The bounds on the fields of a request.
  static var headLimits: NIOHTTPDecoderLimitConfiguration {
    var limits = NIOHTTPDecoderLimitConfiguration()
    // The decoder counts the target as a field.
    limits.maxHeaderListSize = RequestInput.headBytesMax
    limits.maxHeaderFieldSize = RequestInput.headBytesMax
    limits.maxHeaderFieldCount = RequestInput.fieldsMax
    return limits
  }

  /// Adds the handlers of HTTP to a connection that stays with it.
  private func addHTTP(
    _ connection: GatewayConnection, _ input: RequestInput, _ logger: Logger
  ) throws -> HTTP? {
    let channel = connection.channel
    let pipeline = channel.pipeline.syncOperations
    connection.becomeHTTP()
    // Removes the place from the pipeline. Only a WebSocket needs it there.
    _ = ConnectionPlace.take(from: channel.pipeline)
    try pipeline.addHandler(HTTPTypesCodec(isSecure: configuration.certificate != nil))
    try pipeline.addHandler(
      ConnectionGuard(configuration.patience) { isLost in
        if isLost { connection.lose() } else { connection.quiesce() }
      })
    try pipeline.addHandler(
      HTTPConnectionStateHandler(
        idleTimeout: .seconds(configuration.patience.idleSeconds), logger: logger))
    let responder = responder(connection)
    try pipeline.addHandler(
      ShortRequests(flushes: connection.loop.value.flushes, hasMore: { input.hasMore }) {
        head, body, completion in
        responder.beginShort(head, body, completion: completion)
      })
    return try HTTP(
      wrappingChannelSynchronously: channel,
      configuration: .init(isOutboundHalfClosureEnabled: true))
  }

  func responder(_ connection: GatewayConnection) -> Responder {
    Responder(operations, configuration, sockets, counters, connection)
  }

  /// Returns the part of the pipeline that makes a connection a WebSocket. Use it on the channel's event loop only.
  private func upgrader(
    _ first: FirstRequest, _ input: RequestInput, _ close: HeldClose,
    _ connection: GatewayConnection
  ) -> NIOWebSocketServerUpgrader {
    let loop = connection.channel.eventLoop
    let first = NIOLoopBound(first, eventLoop: loop)
    let input = NIOLoopBound(input, eventLoop: loop)
    let close = NIOLoopBound(close, eventLoop: loop)
    return NIOWebSocketServerUpgrader(
      maxFrameSize: min(sockets.frameBytesMax, Int(UInt32.max))
    ) { [self] channel, head in
      guard GatewayChannel.mayUpgrade(head) else {
        return channel.eventLoop.makeSucceededFuture(nil)
      }
      switch GatewayChannel.resource(head) {
      case .realtime:
        let isForeign = sockets.isForeign(
          origin: head.headers["Origin"].first, site: head.headers["Sec-Fetch-Site"].first,
          host: head.headers["Host"].first)
        if isForeign { return channel.eventLoop.makeSucceededFuture(nil) }
        connection.note(
          origin: head.headers["Origin"].first, site: head.headers["Sec-Fetch-Site"].first,
          host: head.headers["Host"].first, in: sockets)
        let earlier = (try? Target(head.uri))?["ls"]
        let loop = channel.eventLoop
        return sockets.endEarlier(session: earlier, on: loop).assumeIsolated().flatMap {
          leaseNamespace(of: head, on: loop, first, connection)
        }.nonisolated()
      case .line:
        let isAllowed = sockets.mayOpenLine(
          origin: head.headers["Origin"].first, host: head.headers["Host"].first,
          from: connection.address)
        return channel.eventLoop.makeSucceededFuture(isAllowed ? HTTPHeaders() : nil)
      default: return channel.eventLoop.makeSucceededFuture(nil)
      }
    } upgradePipelineHandler: { [sockets] channel, head in
      channel.eventLoop.makeCompletedFuture {
        // A WebSocket sends its output itself before it closes.
        channel.pipeline.syncOperations.removeHandler(close.value, promise: nil)
        input.value.becomeWebSocket()
        first.value.becomeWebSocket()
        connection.leaveList()
        if GatewayChannel.resource(head) == .line {
          try sockets.addLine(to: channel)
        } else {
          try sockets.addRealtime(
            to: channel, host: head.headers["Host"].first,
            isOfForeignPage: connection.isOfForeignPage, first.value.takeNamespace())
        }
      }
    }
  }

  /// Opens the namespace that a request for a WebSocket selects.
  ///
  /// - Returns: the fields of the response; nil if the namespace cannot be used. The `Responder` then says why.
  private func leaseNamespace(
    of head: HTTPRequestHead, on loop: any EventLoop, _ first: NIOLoopBound<FirstRequest>,
    _ connection: GatewayConnection
  ) -> EventLoopFuture<HTTPHeaders?> {
    guard let target = try? Target(head.uri), let name = target.namespace else {
      return loop.makeSucceededFuture(HTTPHeaders())
    }
    let turns = connection.turns
    return loop.makeFutureWithTask { [operations] in
      try await operations.lease(ofNamespace: name, turns: turns)
    }.map { lease in
      first.value.use(lease)
      return HTTPHeaders()
    }.recover { [operations] error in
      connection.refuseUpgrade(operations.wireError(error))
      return nil
    }
  }

  /// Whether a request is a GET without a body, as the protocol requires. A proxy before this server could take the
  /// body of another request for the first bytes of the WebSocket.
  private static func mayUpgrade(_ head: HTTPRequestHead) -> Bool {
    head.method == .GET && head.headers["Transfer-Encoding"].isEmpty
      && head.headers["Content-Length"].allSatisfy { $0.hasSameBytes(as: "0") }
  }

  private static func resource(_ head: HTTPRequestHead) -> Target.Resource? {
    guard let target = try? Target(head.uri) else { return nil }
    return try? target.resource()
  }

  func handle(value: Value, logger: Logger) async {
    await withTaskCancellationHandler {
      do {
        if let http = try await value.http.get() {
          let connection = value.connection
          let responder = responder(connection)
          let server = HTTP1Channel(responder: { request, writer, _ in
            do {
              try await responder.respond(to: request, writer)
            } catch {
              connection.charge(0)
              throw error
            }
          })
          await connection.untilLost { await server.handle(value: http, logger: logger) }
        } else {
          // The server shuts down when the last connection has ended.
          try await value.channel.closeFuture.get()
        }
      } catch {
        // The connection ended before its first request.
      }
    } onCancel: {
      value.channel.cutOff()
    }
    value.connection.end()
  }
}

/// The things that the connections of one event loop share. Use it on that loop only.
final class GatewayLoop {
  let operations: Operations
  let inbox: LoopInbox
  let hubs: EventHubs
  /// The connections that wait to be read, or for their next request.
  let turns: LoopTurns
  /// The time that the input of connections may take.
  let work: WorkBudget
  /// The connections that have something to send.
  let flushes: FlushQueue
  /// The connections of the loop that are not WebSockets.
  let clients: LoopClients
  /// The texts of large branches that were sent.
  let encoded: EncodedNodes
  private let loop: any EventLoop
  /// Empties the inbox.
  private var wakeUp: LoopInbox.WakeUp?
  /// The state for the other namespaces.
  private let others: NamespaceLocals<GatewayLoop>

  /// - Parameters:
  ///   - encoded: the texts that this shares with other protocols on the loop; nil for those of `home`, or new ones.
  ///   - now: the clock by which turns end.
  ///   - home: the state for the default namespace, with which it shares the turns and the connections; nil if this is
  ///     that state.
  init(
    _ operations: Operations, loop: any EventLoop, turns: LoopTurns? = nil,
    encoded: EncodedNodes? = nil, now: @escaping () -> NIODeadline = { .now() },
    home: GatewayLoop? = nil
  ) {
    self.operations = operations
    self.loop = loop
    let inbox = LoopInbox(operations.engine, loop: loop)
    let hub = EventHub(inbox, engine: operations.engine, limits: operations.limits)
    self.inbox = inbox
    hubs = EventHubs(hub, operations, turns: home?.hubs.turns)
    self.turns = turns ?? home?.turns ?? LoopTurns(loop: loop)
    work = home?.work ?? WorkBudget(loop: loop, now: now)
    clients = home?.clients ?? LoopClients(operations.clientRegistry, loop: loop)
    self.encoded = encoded ?? home?.encoded ?? EncodedNodes(loop: loop)
    flushes = FlushQueue(loop: loop) {}
    others = NamespaceLocals(loop: loop)
    wakeUp = inbox.onWakeUpWhileKept {
      hub.drainSoon()
      inbox.release()
    }
  }

  /// Returns the state for a namespace. This must be the state for the default one.
  ///
  /// - Parameter operations: the operations on the namespace. The caller has a lease of it.
  func loop(of operations: Operations) -> GatewayLoop {
    if operations === self.operations { return self }
    return others.value(of: operations) { GatewayLoop(operations, loop: loop, home: self) }
  }
}
