internal import CanopyEngine
internal import CanopyEvents
internal import CanopyRealtimeWire
internal import CanopySession
internal import CanopyTree
internal import CanopyWire
internal import NIOCore

/// Requests: from messages to the requests of the session.
extension RealtimeHandler {
  func receiveMessage(_ context: ChannelHandlerContext, _ bytes: UnsafeRawBufferPointer) {
    guard bytes.count < Operations.longTextBytes else { return receiveLong(context, bytes) }
    countWork(bytes: bytes.count)
    do throws(RealtimeRefusal) {
      let message = try ClientMessage(bytes, limits: operations.limits)
      receive(context, message, bytes: Request.memoryBytes(text: bytes))
    } catch {
      refuse(error)
    }
  }

  private func receiveLong(_ context: ChannelHandlerContext, _ text: UnsafeRawBufferPointer) {
    let number = ClientMessage.number(inBeginning: text)
    decodeBeside(context, text) { [limits = operations.limits] text, bytes, pause in
      (try ClientMessage(text, limits: limits, pausing: pause), bytes)
    } receive: { [self] decoded in
      switch decoded {
      case .success(let (message, bytes)): receive(context, message, bytes: bytes)
      case .failure(let error as RealtimeRefusal): refuse(error)
      // The memory is short, or there is no thread: the client may try again.
      case .failure(let error as WireError): refuse(RealtimeRefusal(number, error))
      case .failure(let error): endRequests(operations.wireError(error).sentence)
      }
    }
  }

  private func refuse(_ refusal: RealtimeRefusal) {
    if let number = refusal.number {
      refuse(number, refusal.error)
    } else {
      endRequests(refusal.error.sentence)
    }
  }

  func refuse(_ number: Int64, _ error: WireError) {
    answers.append(number, .plain)
    session.refuse(error)
  }

  private func receive(_ context: ChannelHandlerContext, _ message: ClientMessage, bytes: Int) {
    switch message {
    case .ping: append { ServerMessage.pong(to: &$0) }
    case .otherControl: break
    case .request(let number, let request):
      let (translated, kind) = translate(request)
      answers.append(number, kind)
      if case .read(let read) = translated, session.readsAtOnce(read) {
        return self.read(context, read)
      }
      let runsAlone = if case .conditionalMerge = kind { true } else { false }
      session.receive(translated, bytes: bytes + translated.pathBytes, runsAlone: runsAlone)
    }
  }

  /// Returns the request of the session, and the part that its answer depends on.
  private func translate(_ request: RealtimeRequest) -> (Request, PendingAnswers.Kind) {
    switch request {
    case .listen(let body):
      let options = ListenOptions(query: body.target.query, form: .sync)
      return (.listen(.listen(body.target.path, options)), .listen(body))
    case .unlisten(let target): return (.listen(.unlisten(-1)), .unlisten(target))
    case .get(let path, let query):
      var options = GetOptions()
      options.query = query.isUnbounded ? .all : query
      options.hasQuery = !query.isUnbounded
      options.isExport = true
      return (.read(.get(Location(path), options)), .get)
    case .put(let body):
      guard let hash = body.hash else {
        return (.write(.tree(.set(body.location, body.value))), .plain)
      }
      let etag = RealtimeHandler.etag(hash)
      return (
        .write(.tree(.compareAndSet(body.location, etag: etag, body.value))),
        .transaction(body.location)
      )
    case .merge(let body):
      return (
        .write(.tree(.update(body.path, body.changes))),
        body.hash.map { .conditionalMerge(body.path, hash: $0) } ?? .plain
      )
    case .disconnectPut(let location, let value):
      return (.connection(DisconnectText.request(set: location, value)), .plain)
    case .disconnectMerge(let path, let changes):
      return (.connection(DisconnectText.request(update: path, changes)), .plain)
    case .disconnectCancel(let path):
      return (.connection(DisconnectText.request(cancel: path)), .plain)
    case .authenticate(let body):
      return (.account(.authenticate(token: body.token)), .authenticate)
    case .unauthenticate: return (.account(.authenticate(token: "")), .unauthenticate)
    case .statistics, .appCheck: return (.read(.ping), .plain)
    }
  }

  /// Returns the ETag of the value with a hash.
  static func etag(_ hash: String) -> String { hash.isEmpty ? Node.absent.etag : hash }
}
