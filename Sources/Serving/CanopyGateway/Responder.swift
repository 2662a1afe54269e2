internal import CanopyEngine
internal import CanopyEvents
internal import CanopyRealtime
internal import CanopySession
internal import CanopyTree
internal import CanopyWire
internal import HTTPTypes
internal import HummingbirdCore
internal import Logging
internal import NIOCore

/// Answers the requests of one connection, one after the other.
struct Responder: Sendable {
  /// The operations on the namespace of a request; until that is known, on the default one.
  private(set) var operations: Operations
  /// Keeps the namespace of a request open; nil for the default one.
  private(set) var lease: NamespaceLease?
  let connection: GatewayConnection
  let configuration: Gateway.Configuration
  let sockets: RealtimeConnections
  private let counters: HTTPMetrics

  init(
    _ operations: Operations, _ configuration: Gateway.Configuration,
    _ sockets: RealtimeConnections, _ counters: HTTPMetrics, _ connection: GatewayConnection
  ) {
    self.operations = operations
    self.configuration = configuration
    self.sockets = sockets
    self.counters = counters
    self.connection = connection
  }

  /// The connection is gone, or ends because the input behind a request cannot be understood.
  struct ConnectionEnds: Error {}

  /// Answers a request.
  ///
  /// - Throws: an error if the connection is to end.
  func respond(to request: HummingbirdCore.Request, _ writer: consuming ResponseWriter) async throws
  {
    // A request that came before the client was gone may be handed on after it.
    guard connection.unlessLost({ true }) == true else { throw ConnectionEnds() }
    let start = measuredNow
    var body = RequestBodyReader(request.body, connection)
    let outcome = try await outcome(of: request, &body, writer)
    var answer: HTTPAnswer
    switch outcome {
    case .answer(let result): answer = result
    case .stream(let stream, let isOfPage):
      counters.countStream()
      return try await send(stream, isOfPage: isOfPage, writer)
    }
    answer = completed(answer, of: request.head, since: start)
    if body.isTooLarge { answer.closes = true }
    let closes = answer.closes
    try await answer.send(
      to: writer, acceptsGzip: Responder.acceptsGzip(request.headers), in: operations.shortWork,
      of: connection.turns
    ) { connection.charge($0) }
    guard closes else { return }
    guard body.isTooLarge else { throw ConnectionEnds() }
    // The client gets a moment to read the response: closing at once could take it away.
    let close = connection.channel.eventLoop.scheduleTask(in: .seconds(1)) {
      connection.channel.cutOff()
    }
    await body.drop()
    close.cancel()
    throw ConnectionEnds()
  }

  /// The time of the clock of measurements, in nanoseconds.
  var measuredNow: Int64 { counters.now() }

  /// Counts a request, and returns its response with the fields that depend on the request.
  ///
  /// - Parameter start: the time at which it came, by `measuredNow`.
  func completed(
    _ answer: HTTPAnswer, of request: HTTPRequest, since start: Int64
  ) -> HTTPAnswer {
    counters.count(request.method, answer, since: start)
    var answer = answer
    let fields = request.headerFields
    if answer.isForAllOrigins, fields[.origin] != nil { answer.allowOrigins() }
    if request.method == .head { answer.body = .none }
    // The parser does not read on behind a request that asks for another protocol.
    if fields[.upgrade] != nil || request.method == .connect { answer.closes = true }
    return answer
  }

  /// The answer to a request.
  enum Outcome {
    case answer(HTTPAnswer)
    case stream(EventStream.Handle, isOfPage: Bool)
  }

  /// A request whose address and fields have been read.
  struct Parsed {
    let method: HTTPRequest.Method
    let target: Target
    let fields: HTTPFields
    /// The field `Host`.
    let host: String?
  }

  /// - Throws: an error that is not about the request: the rest of the connection cannot be read.
  private func outcome(
    of request: HummingbirdCore.Request, _ body: inout RequestBodyReader,
    _ writer: borrowing ResponseWriter
  ) async throws -> Outcome {
    do {
      // It has no path. The parser does not read on behind it.
      if request.method == .connect { return .answer(.methodNotAllowed(Responder.methods)) }
      let (target, method) = try await inTurn { [head = request.head] in
        let target: Target
        do throws(TreeError) { target = try Target(head.path ?? "") } catch {
          throw WireError(error)
        }
        return (target, Responder.method(head, target))
      }
      if request.method == .options { return .answer(.preflight(request.headers)) }
      let resource: Target.Resource?
      do throws(TreeError) { resource = try target.resource() } catch { throw WireError(error) }
      let parsed = Parsed(
        method: method, target: target, fields: request.headers, host: request.head.authority)
      switch resource {
      case nil:
        if let page = try pageOfNothing(parsed) { return .answer(page) }
        return .answer(
          .failure(.notFound, "there is nothing at this address; append .json to read the tree"))
      case .health: return .answer(health(method))
      case .metrics: return .answer(try await metrics(parsed))
      case .realtime:
        try refuseForeignPage(parsed)
        // The answer to an upgrade that was refused because of its namespace says why.
        if let refusal = connection.takeUpgradeRefusal() { throw refusal }
        if try request.headers[.upgrade] != nil || !isUncreated(target) {
          _ = try await inNamespace(of: target)
        }
        return .answer(Responder.webSocketNeeded)
      case .line:
        return .answer(line(origin: parsed.fields[.origin], host: parsed.host))
      case .longPolling:
        return .answer(Responder.longPollingRefused)
      case .identity: return .answer(try await identity(parsed, &body, writer))
      case .page(let file): return .answer(try page(file, parsed))
      case .rules:
        try refuseForeignPage(parsed)
        if try isUncreated(target) {
          guard case .administrator = try await identity(parsed) else {
            throw WireError.denied
          }
        }
        return .answer(try await inNamespace(of: target).rules(parsed, &body, writer))
      case .tree(let location):
        try refuseForeignPage(parsed)
        guard Responder.methods.contains(method) else {
          return .answer(.methodNotAllowed(Responder.methods))
        }
        if method == .get, !Responder.wantsStream(request.headers), try isUncreated(target) {
          return .answer(try await readUncreated(parsed, at: location))
        }
        return try await answer(parsed, at: location, &body, writer)
      }
    } catch let error as WireError {
      // The connection is gone. There is no client for a response, and no error to count.
      guard error != .cancelled else { throw ConnectionEnds() }
      return .answer(.failure(error))
    }
  }

  /// Whether a request selects a namespace of an emulator that is not created yet.
  private func isUncreated(_ target: Target) throws(WireError) -> Bool {
    guard let name = target.namespace else { return false }
    return try operations.isUncreated(namespace: name)
  }

  /// Returns the responder for the namespace that a request selects.
  private func inNamespace(of target: Target) async throws(WireError) -> Responder {
    guard let name = target.namespace else { return self }
    let lease = try await operations.lease(ofNamespace: name, turns: connection.turns)
    var responder = self
    responder.operations = lease.operations
    responder.lease = lease
    return responder
  }

  private func answer(
    _ request: Parsed, at location: Location, _ body: inout RequestBodyReader,
    _ writer: borrowing ResponseWriter
  ) async throws -> Outcome {
    let identity = try await identity(request)
    let options = try await inTurn { try RequestOptions(request.target) }
    switch request.method {
    case .get:
      let responder = try await inNamespace(of: request.target)
      if Responder.wantsStream(request.fields) {
        return try await responder.stream(request, at: location, options, as: identity)
      }
      return .answer(try await responder.read(request, at: location, options, as: identity))
    default:
      // A client may take long to send a body, and must not keep a place of a namespace meanwhile.
      let data = try await writtenData(
        of: request, at: location, options, as: identity, &body, writer)
      return .answer(
        try await inNamespace(of: request.target)
          .write(data, request, at: location, options, as: identity))
    }
  }

  static let methods: [HTTPRequest.Method] = [.get, .put, .post, .patch, .delete]

  /// Returns the method: a POST may stand for another.
  static func method(_ request: HTTPRequest, _ target: Target) -> HTTPRequest.Method {
    guard request.method == .post else { return request.method }
    let name =
      HTTPField.Name("X-HTTP-Method-Override").flatMap { request.headerFields[$0] }
      ?? target["x-http-method-override"]
    return name.flatMap { HTTPRequest.Method(rawValue: $0.asciiUppercased) } ?? .post
  }

  static func wantsStream(_ fields: HTTPFields) -> Bool {
    accepts(EventStream.mediaType, fields[values: .accept])
  }

  /// Whether a client shows pages, as a browser does for the address that a person has typed.
  static func acceptsPages(_ fields: HTTPFields) -> Bool {
    accepts("text/html", fields[values: .accept])
  }

  static func acceptsGzip(_ fields: HTTPFields) -> Bool {
    accepts("gzip", fields[values: .acceptEncoding])
  }

  /// Whether the values of a field name a medium or a coding.
  private static func accepts(_ name: String, _ values: [String]) -> Bool {
    values.lazy.flatMap { $0.parts(separatedBy: UInt8(ascii: ",")) }
      .prefix(String.fieldPartsMax).map(\.weighted).contains {
        $0.name.hasSameBytes(as: name) && !$0.isRefused
      }
  }

  /// Runs `body` when it is the turn of the connection. The threads of tasks are few, and all protocols need them: without
  /// turns, many connections with requests that are costly to parse would keep logins waiting.
  func inTurn<R: Sendable>(_ body: () throws -> R) async throws -> R {
    try await operations.shortWork.withTurn(of: connection.turns) { try body() }
  }

  // MARK: The user of a request

  /// Returns the user of a request.
  ///
  /// - Throws: `WireError` if the credential is not valid.
  func identity(_ request: Parsed) async throws(WireError) -> Identity {
    guard let token = try credential(request) else { return .anonymous }
    return try Responder.identity(await identity(of: token), in: request)
  }

  /// Returns the user of a request; nil if the credential is yet to be checked.
  ///
  /// - Throws: `WireError` if the credential has no valid form.
  func knownIdentity(_ request: Parsed) throws(WireError) -> Identity? {
    guard let token = try credential(request) else { return .anonymous }
    guard
      let identity = isOwner(token) ? .administrator : connection.knownIdentity(of: token)
    else { return nil }
    return try Responder.identity(identity, in: request)
  }

  /// Returns the user as whom a request is authorized.
  private static func identity(
    _ identity: Identity, in request: Parsed
  ) throws(WireError) -> Identity {
    // The administrator may have a request authorized as that of another caller.
    guard case .administrator = identity, let text = request.target["auth_variable_override"] else {
      return identity
    }
    return try Responder.described(by: text)
  }

  private func identity(of token: String) async throws(WireError) -> Identity {
    if isOwner(token) { return .administrator }
    do {
      return try await connection.identity(of: token)
    } catch {
      guard error.code == .unauthenticated else { throw error }
      throw WireError(.unauthenticated, "Could not parse auth token.")
    }
  }

  /// Whether a credential is the one of an emulator's administrator.
  private func isOwner(_ token: String) -> Bool {
    configuration.isEmulator && token == Operations.emulatorOwner
  }

  /// Whether a foreign page may have made a request to an emulator.
  func isForeign(_ request: Parsed) -> Bool {
    sockets.isForeign(
      origin: request.fields[.origin], site: Responder.site(request.fields), host: request.host)
  }

  /// Refuses a request of a foreign page to an emulator, before it has any effect. For any other server, notes that the
  /// page uses the connection.
  ///
  /// - Throws: `WireError` for such a request.
  func refuseForeignPage(_ request: Parsed) throws(WireError) {
    if isForeign(request) { throw Operations.foreignPage }
    connection.note(
      origin: request.fields[.origin], site: Responder.site(request.fields), host: request.host,
      in: sockets)
  }

  /// Whether a page of a foreign site has made a request.
  func isOfForeignPage(_ request: Parsed) -> Bool {
    sockets.isOfForeignPage(
      origin: request.fields[.origin], site: Responder.site(request.fields), host: request.host)
  }

  private static let siteName = HTTPField.Name("Sec-Fetch-Site")

  /// The field by which a browser says how the site of a page relates to the server; nil without one.
  static func site(_ fields: HTTPFields) -> String? {
    siteName.flatMap { fields[$0] }
  }

  private func credential(_ request: Parsed) throws(WireError) -> String? {
    guard let token = try sentCredential(request) else { return nil }
    if configuration.isEmulator, Operations.isOfEmulator(token), isForeign(request) {
      throw Operations.foreignPage
    }
    return token
  }

  private func sentCredential(_ request: Parsed) throws(WireError) -> String? {
    if let token = request.target["auth"] ?? request.target["access_token"] { return token }
    guard let field = request.fields[.authorization] else { return nil }
    let scheme = "bearer "
    guard field.asciiLowercased.hasBytePrefix(scheme) else {
      throw WireError(.unauthenticated, "Could not parse auth token.")
    }
    return field.droppingBytes(scheme.utf8.count).trimmed
  }

  /// Returns the caller with a value of `auth`, as the administrator gives it in JSON.
  private static func described(by text: String) throws(WireError) -> Identity {
    do throws(TreeError) {
      let auth = try WriteValue(json: text)
      if auth.node.isAbsent { return .anonymous }
      if auth.node.isBranch, auth.serverValues.isEmpty { return .described(auth: auth.node) }
    } catch {
      throw WireError(
        .badRequest, "auth_variable_override is not valid: \(error.sentence)")
    }
    throw WireError(
      .badRequest, "auth_variable_override must be null or an object, such as {\"uid\":\"ada\"}")
  }
}

extension HTTPAnswer {
  /// Creates the response for a method that the resource does not have.
  static func methodNotAllowed(_ allowed: [HTTPRequest.Method]) -> HTTPAnswer {
    var answer = failure(.methodNotAllowed, "use one of the methods of the field Allow")
    answer.fields[.allow] = allowed.map(\.rawValue).joined(separator: ", ")
    return answer
  }

  /// Creates the response to the question of a browser whether a page may make a request.
  static func preflight(_ request: HTTPFields) -> HTTPAnswer {
    var answer = HTTPAnswer()
    answer.fields[.allow] = "GET, PUT, POST, PATCH, DELETE, OPTIONS"
    answer.fields[.accessControlAllowMethods] = "GET, PUT, POST, PATCH, DELETE"
    answer.fields[.accessControlAllowHeaders] =
      request[.accessControlRequestHeaders]
      ?? "Authorization, Content-Type, If-Match, If-None-Match, X-Firebase-ETag, X-HTTP-Method-Override"
    answer.fields[.accessControlMaxAge] = "3600"
    return answer
  }

  /// Lets pages of every origin read the response.
  mutating func allowOrigins() {
    fields[.accessControlAllowOrigin] = "*"
    fields[.accessControlExposeHeaders] = "ETag"
  }
}
