internal import CanopyEngine
internal import CanopyEvents
internal import CanopyRealtime
internal import CanopySession
internal import CanopyTree
internal import CanopyWire
internal import Logging
internal import NIOCore
internal import NIOExtras
internal import Synchronization

/// One connection of the HTTP port: its user, the memory that it makes the server hold, and its event stream.
///
/// Safe to use from any thread. Its requests are answered one after the other.
final class GatewayConnection: Sendable {
  let channel: any Channel
  let loop: NIOLoopBoundBox<GatewayLoop>
  /// The address of the client.
  let address: String
  let operations: Operations
  /// Its place among all connections; nil for one that is refused.
  private let place: ConnectionPlace?
  /// The time of its beginning, in milliseconds since 1970.
  private let since: Int64

  /// The bytes charged for a connection before its first request, and for a WebSocket: its channel and its handlers.
  static let newBytes = 12 * 1024
  /// The bytes charged for a connection that speaks HTTP: also its task and a small request. Measured by the growth of
  /// a server with idle connections.
  static let baseBytes = 32 * 1024

  private struct State: ~Copyable {
    /// The bytes that the connection takes while it is idle.
    var idle = GatewayConnection.newBytes
    /// The bytes of bodies, of decoded data and of responses.
    var work = 0
    /// The bytes of the input that waits.
    var input = 0
    /// The bytes of the output that the socket has not taken.
    var output = 0
    /// The bytes of the heads of requests.
    var heads = 0
    /// The bytes of a body that the responder has not taken.
    var body = 0
    /// The memory that the connection holds, once it is enough to report.
    var share: MemoryBudget.Share?
    /// The last credential and its user. Clients send the same one with each request.
    var login: (token: String, identity: Identity)?
    /// The reason why the connection did not become a WebSocket; nil if its request asked for none.
    var upgradeRefusal: WireError?
    /// The event stream that is being sent.
    var stream: EventStream.Handle?
    /// Cancels the task that answers the requests.
    var cancelRequests: (@Sendable () -> Void)?
    var isQuiescing = false
    /// Whether the connection is gone, and the server keeps nothing new for it.
    var hasEnded = false
    /// Whether the task that answers the requests has ended as well.
    var haveRequestsEnded = false
    /// The number in the list of the event loop; nil while the connection is not in the list.
    var clientID: Int64?
    /// The values that `place` has.
    var standing = ConnectionPlace.Standing.new
    /// Whether a request was successful.
    var hasSucceeded = false
    /// Whether a request is under way, and whether its client reads.
    var isAtWork = false
    var isRead = true

    /// An event stream waits for events, and not its client for an answer.
    var isBusy: Bool { isAtWork && isRead && stream == nil }

    /// The standing of the connection now.
    var newStanding: ConnectionPlace.Standing {
      switch login?.identity {
      case .administrator: .administrator
      case .user: .kept
      case .anonymous, nil: stream != nil ? .kept : hasSucceeded ? .used : .new
      }
    }

    /// The bytes that the connection holds. One that is gone has no channel, but the task with its requests until they
    /// have ended, and then at most a short write.
    var bytes: Int {
      if haveRequestsEnded { return work }
      let requests = idle + work + heads + body + (login?.identity.memoryBytes ?? 0)
      return hasEnded ? requests - GatewayConnection.newBytes : requests + input + output
    }
  }

  private let state = Mutex(State())
  private let foreignPage = Atomic(false)
  /// Whether the connection is gone. A lock of its own, because writes are submitted while it is held.
  private let isLost = Mutex(false)

  init(_ channel: any Channel, _ operations: Operations, _ loop: NIOLoopBoundBox<GatewayLoop>) {
    self.channel = channel
    self.operations = operations
    self.loop = loop
    address = channel.remoteAddress?.ipAddress ?? "local"
    since = operations.now()
    place = ConnectionPlace.find(in: channel.pipeline)
  }

  /// Notes whether whole requests are under way.
  func setAtWork(_ isAtWork: Bool) {
    changePlace { $0.isAtWork = isAtWork }
  }

  /// Notes that a request was successful.
  func noteSuccess() {
    changePlace { $0.hasSucceeded = true }
  }

  /// Notes whether the client reads its responses.
  func setRead(_ isRead: Bool) {
    changePlace { $0.isRead = isRead }
  }

  /// Reports what decides whether the connection may lose its place.
  private func changePlace(_ change: (inout State) -> Void) {
    guard let place else { return }
    let standing = state.withLock { state -> ConnectionPlace.Standing? in
      change(&state)
      place.setBusy(state.isBusy)
      let new = state.newStanding
      guard new != state.standing else { return nil }
      state.standing = new
      return new
    }
    place.noteUse()
    if let standing { place.set(standing) }
  }

  /// The group in which the long work of the connection takes turns.
  var turns: TurnGroup {
    Operations.turns(
      of: ObjectIdentifier(self), at: address, isOfForeignPage: isOfForeignPage)
  }

  /// Whether a web page of a foreign site has made a request of the connection. A browser uses a connection for the pages
  /// of one site.
  var isOfForeignPage: Bool { foreignPage.load(ordering: .relaxed) }

  /// Notes the page that makes a request.
  ///
  /// - Parameters:
  ///   - origin: the field `Origin` of the request.
  ///   - site: its field `Sec-Fetch-Site`.
  ///   - host: its field `Host`.
  func note(origin: String?, site: String?, host: String?, in sockets: RealtimeConnections) {
    guard origin != nil || site != nil,
      sockets.isOfForeignPage(origin: origin, site: site, host: host)
    else { return }
    foreignPage.store(true, ordering: .relaxed)
  }

  /// Keeps the reason why the connection does not become a WebSocket, for the response to its request.
  func refuseUpgrade(_ error: WireError) {
    state.withLock { $0.upgradeRefusal = error }
  }

  /// Removes the reason why the connection did not become a WebSocket; nil if there is none.
  func takeUpgradeRefusal() -> WireError? {
    state.withLock { $0.upgradeRefusal.take() }
  }

  /// Charges the memory that the request or the stream of the connection makes the server hold now.
  func charge(_ bytes: Int) {
    charge { $0.work = bytes }
  }

  /// Charges the input that waits.
  func charge(input bytes: Int) {
    charge { $0.input = bytes }
  }

  /// Charges the output that the socket has not taken.
  func charge(output bytes: Int) {
    charge { $0.output = bytes }
  }

  /// Charges the heads of the requests that are not answered, and of the last one that is.
  func charge(head bytes: Int) {
    charge { $0.heads = bytes }
  }

  /// Charges bytes of a body until the responder takes them.
  func receivedBody(_ bytes: Int) {
    charge { $0.body += bytes }
  }

  /// Notes that the responder has taken bytes of a body.
  func tookBody(_ bytes: Int) {
    charge { $0.body = max(0, $0.body - bytes) }
  }

  /// Notes that the body of the request has no further use.
  func endBody() {
    charge { $0.body = 0 }
  }

  /// Charges the memory of a connection that speaks HTTP from now on.
  func becomeHTTP() {
    charge { $0.idle = GatewayConnection.baseBytes }
  }

  /// Charges the memory that the request will take when its body is decoded.
  ///
  /// - Throws: `WireError` if there is no room for it, and then the body must not be decoded; `ConnectionEnds` if the
  ///   connection is gone.
  func admit(_ bytes: Int) throws {
    try state.withLock { state in
      guard !state.hasEnded else { throw Responder.ConnectionEnds() }
      let before = state.work
      state.work = bytes
      if state.share == nil { state.share = openShare() }
      let (total, idle) = (state.bytes, state.idle)
      guard state.share?.admit(total, idle: idle) == true else {
        state.work = before
        throw WireError.noMemory
      }
    }
  }

  private func charge(_ change: (inout State) -> Void) {
    state.withLock { state in
      change(&state)
      if state.share == nil {
        guard !state.hasEnded else { return }
        state.share = openShare()
      }
      let (bytes, idle) = (state.bytes, state.hasEnded ? 0 : state.idle)
      state.share?.report(bytes, idle: idle)
    }
  }

  private func openShare() -> MemoryBudget.Share {
    operations.memory.open(on: channel.eventLoop, network: turns.network) {
      [channel, address, operations] in
      guard channel.isActive else { return }
      operations.memory.lines.add(
        "an HTTP connection was cut off because the server is short of memory",
        ["from": "\(address)"], to: operations.logger)
      channel.cutOff()
    }
  }

  /// Returns the user whom a token names if it is the last one of the connection, is still valid, and its account has not
  /// changed since; else nil.
  func knownIdentity(of token: String) -> Identity? {
    let known = state.withLock { state in
      state.login.flatMap { $0.token.hasSameBytes(as: token) ? $0.identity : nil }
    }
    if case .user(let session)? = known {
      guard session.isValid(at: operations.now()), !session.isOutdated else { return nil }
    }
    return known
  }

  /// Returns the user whom a session token or an identity token names.
  ///
  /// - Throws: `WireError` if the token is not valid, or cannot be checked now.
  func identity(of token: String) async throws(WireError) -> Identity {
    if let known = knownIdentity(of: token) { return known }
    let completion = await operations.account(
      .authenticate(token: token), as: .anonymous, from: address)
    guard let identity = completion.identity else {
      if case .failure(let error) = completion.reply { throw error }
      throw WireError(.unauthenticated, "the token is not valid; log in again")
    }
    let (old, isLate) = state.withLock { state -> (Identity?, Bool) in
      if state.hasEnded { return (nil, true) }
      defer { state.login = (token, identity) }
      return (state.login?.identity, false)
    }
    release(isLate ? identity : old)
    // Charges the login.
    charge { _ in }
    changePlace { _ in }
    if case .user(let session) = identity {
      // The session keeps the closure, so the closure must not keep the connection.
      session.onRevocation { [weak self] in self?.checkStream() }
    }
    return identity
  }

  private func release(_ identity: Identity?) {
    if case .user(let session)? = identity { operations.sessions.remove(session) }
  }

  /// Notes the event stream that is being sent; nil for none.
  func use(_ stream: EventStream.Handle?) {
    let mustEnd = state.withLock { state in
      state.stream = stream
      return state.hasEnded || state.isQuiescing
    }
    changePlace { _ in }
    if mustEnd { stream?.finish() } else { stream?.endIfRevoked() }
  }

  /// Ends the event stream if the login of its user has ended.
  private func checkStream() {
    state.withLock { $0.stream }?.endIfRevoked()
  }

  /// Ends the event stream because the server shuts down, or the client sends no more.
  func quiesce() {
    state.withLock { state in
      state.isQuiescing = true
      return state.stream
    }?.finish()
  }

  /// Returns the result of `body`; nil if the connection is gone, and then `body` does not run.
  ///
  /// When `lose` has returned, no `body` runs any more. Without this a request that was read before could write after
  /// another connection of the same client had written.
  func unlessLost<R>(_ body: () -> R) -> R? {
    isLost.withLock { $0 ? nil : body() }
  }

  /// Runs `body`, which answers the requests. Cancels it when the connection is lost, so that everything ends for which
  /// a request waits: its client is gone, and others need the turns and the memory.
  func untilLost(_ body: @escaping @Sendable () async -> Void) async {
    let task = Task(operation: body)
    let isLost = state.withLock { state in
      state.cancelRequests = { task.cancel() }
      return state.hasEnded
    }
    if isLost { task.cancel() }
    await task.value
  }

  /// Ends the event stream and the requests because the connection is gone. They stay charged until they have ended,
  /// and writes until they are complete.
  func lose() {
    isLost.withLock { $0 = true }
    let (stream, cancelRequests) = state.withLock { state in
      state.hasEnded = true
      let bytes = state.bytes
      state.share?.leave(holding: bytes)
      return (state.stream, state.cancelRequests.take())
    }
    stream?.end()
    cancelRequests?()
  }

  /// Ends everything that the server keeps for the connection, except the charge for a short write that is under way.
  /// Its requests have ended.
  func end() {
    let login = state.withLock { state -> Identity? in
      state.hasEnded = true
      state.haveRequestsEnded = true
      state.cancelRequests = nil
      let bytes = state.bytes
      state.share?.leave(holding: bytes)
      if bytes == 0 { state.share = nil }
      return state.login.take()?.identity
    }
    release(login)
  }
}

/// The connection as the administrator sees it.
extension GatewayConnection: LoopClient {
  /// Adds the connection to the list of its event loop until it ends. Called on the loop.
  func enterList() {
    let id = loop.value.clients.add(self)
    state.withLock { $0.clientID = id }
    channel.closeFuture.whenComplete { _ in self.leaveList() }
  }

  /// Removes the connection from the list: it has ended, or has become a WebSocket, which has a number of its own.
  /// Called on the loop.
  func leaveList() {
    if let id = state.withLock({ $0.clientID.take() }) { loop.value.clients.remove(id) }
  }

  func clientState(_ id: Int64, listMax: Int) -> ClientState {
    var client = ClientState(
      id: id, .http, address: address, since: since, namespace: operations.namespace)
    let (stream, bytes) = state.withLock { state in
      if let identity = state.login?.identity { client.identity = identity }
      return (state.stream, state.bytes)
    }
    stream?.add(to: &client, listMax: listMax)
    client.bytes = bytes
    return client
  }

  func endClient(_ error: WireError) {
    channel.cutOff()
  }
}
