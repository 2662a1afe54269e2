internal import CanopyEngine
internal import CanopyEvents
internal import CanopyMetrics
internal import CanopyRealtimeWire
internal import CanopySession
internal import CanopyTree
internal import CanopyWire
internal import NIOCore

/// Requests: from the frames of the input to the outcomes that the session receives.
extension RealtimeHandler {
  /// Decodes a frame, and has the session receive the request if it completes one.
  func decode(_ context: ChannelHandlerContext, _ frame: ByteBuffer) {
    scheduled.isDecoding = true
    defer { scheduled.isDecoding = false }
    frame.withUnsafeReadableBytes { bytes in
      var assembler = input.assembler
      let framesMax = assembler.framesMax
      // A message of several frames must not be copied with the assembler.
      input.assembler = MessageAssembler(bytesMax: 0)
      assembler.receive(bytes) { outcome in
        switch outcome {
        case .incomplete: break
        case .message(let message): receiveMessage(context, message)
        case .invalid: fail("a message may have at most \(framesMax) frames")
        case .tooLarge(let number):
          let sentence =
            "a message may have at most \(operations.limits.lineBytesMax) bytes; write in smaller steps"
          if let number {
            refuse(number, WireError(.tooLarge, sentence))
          } else {
            fail(sentence)
          }
        }
      }
      input.assembler = assembler
    }
    perform(context)
  }

  private func receiveMessage(_ context: ChannelHandlerContext, _ bytes: UnsafeRawBufferPointer) {
    guard bytes.count < Operations.longTextBytes else {
      return decodeBeside(context, Array(bytes))
    }
    countWork(bytes: bytes.count)
    do throws(RealtimeRefusal) {
      let message = try ClientMessage(bytes, limits: operations.limits)
      receive(context, message, bytes: Request.memoryBytes(text: bytes))
    } catch {
      refuse(error)
    }
  }

  /// Decodes a long message beside the event loop. Until the end of that the connection decodes no other message and
  /// begins no request.
  private func decodeBeside(_ context: ChannelHandlerContext, _ text: [UInt8]) {
    input.bytesBeside = text.count
    session.pause(true)
    let bound = NIOLoopBound((self, context), eventLoop: context.eventLoop)
    let loop = context.eventLoop
    scheduled.decoding = Task { [operations, turns = client.turns] in
      let decoded: Result<(message: ClientMessage, bytes: Int), RealtimeRefusal>
      do {
        decoded = .success(
          try await operations.beside(turns) {
            try text.withUnsafeBytes { bytes in
              (
                try ClientMessage(bytes, limits: operations.limits),
                Request.memoryBytes(text: bytes)
              )
            }
          })
      } catch let error as RealtimeRefusal {
        decoded = .failure(error)
      } catch {
        decoded = .failure(RealtimeRefusal(nil, operations.wireError(error)))
      }
      loop.execute {
        let (handler, context) = bound.value
        handler.receiveDecoded(context, decoded)
      }
    }
  }

  /// Receives the request of a long message, and goes on with the messages that follow.
  private func receiveDecoded(
    _ context: ChannelHandlerContext,
    _ decoded: Result<(message: ClientMessage, bytes: Int), RealtimeRefusal>
  ) {
    scheduled.decoding = nil
    input.bytesBeside = 0
    session.pause(false)
    switch decoded {
    case .success(let (message, bytes)): receive(context, message, bytes: bytes)
    case .failure(let error): refuse(error)
    }
    advance(context)
  }

  private func refuse(_ refusal: RealtimeRefusal) {
    if let number = refusal.number {
      refuse(number, refusal.error)
    } else {
      fail(refusal.error.sentence)
    }
  }

  private func refuse(_ number: Int64, _ error: WireError) {
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
      if case .read(let read) = translated, session.readsAtOnce(translated) {
        _ = answers.begin()
        return self.read(context, read)
      }
      var runsAlone = operations.runsAlone(translated)
      if case .conditionalMerge = kind { runsAlone = true }
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
  private static func etag(_ hash: String) -> String { hash.isEmpty ? Node.absent.etag : hash }

  /// Counts a request. At the end of the connection's turn the session pauses: no further request begins
  /// before the next turn.
  ///
  /// - Parameter bytes: the length of its text if the text is yet to be decoded; else 0.
  func countWork(bytes: Int = 0) {
    guard shared.work.count(&scheduled.turn, bytes: bytes), !session.isPaused else { return }
    session.pause(true)
    takeTurnLater()
  }

  /// Carries out a read and answers it, or begins it beside the loop if it takes long.
  func read(_ context: ChannelHandlerContext, _ request: ReadRequest) {
    // The events that led to the snapshot go out first.
    let measurement = shared.metrics.begin(RequestKind(request))
    if !listeners.isEmpty, !shared.hub.drain() {
      let slot = session.postponeRead()
      measurements[slot] = measurement
      return readAfterEvents(request, slot)
    }
    let root = shared.inbox.snapshot.root
    if let reply = operations.read(request, as: session.identity, in: root) {
      answer(reply)
      if let measurement { shared.metrics.end(measurement) }
    } else {
      let slot = session.postponeRead()
      measurements[slot] = measurement
      readLong(context, request, slot, in: root)
    }
  }

  /// Begins a request that the session has put under way.
  func begin(
    _ context: ChannelHandlerContext, _ request: Request, _ kind: PendingAnswers.Kind,
    _ slot: Session.Slot
  ) {
    if let measurement = shared.metrics.begin(RequestKind(request)) {
      measurements[slot] = measurement
    }
    switch request {
    case .write(let write):
      let complete = completion(context, slot)
      if case .conditionalMerge(let path, let hash) = kind,
        case .tree(.update(_, let changes)) = write
      {
        return operations.update(
          path, changes, ifMatch: RealtimeHandler.etag(hash), as: session.identity,
          from: client.address, turns: client.turns
        ) { complete(Session.Completion($0)) }
      }
      operations.write(write, as: session.identity, from: client.address, turns: client.turns) {
        complete(Session.Completion($0))
      }
    case .read(let read): orderedRead(context, read, slot)
    case .listen:
      do throws(WireError) {
        switch kind {
        case .listen(let body): try listen(body, slot)
        case .unlisten(let target): try unlisten(target, slot)
        default: assertionFailure("the request is not that of the client")
        }
      } catch {
        finish(slot, Session.Completion(error))
      }
    case .account(let request): begin(context, request, kind, slot)
    case .administration(let request):
      operations.begin(request, as: session.identity, completion(context, slot))
    case .connection(let request):
      operations.begin(request, as: session.identity, session.armed, completion(context, slot))
    }
  }

  private func begin(
    _ context: ChannelHandlerContext, _ request: AccountRequest, _ kind: PendingAnswers.Kind,
    _ slot: Session.Slot
  ) {
    if case .unauthenticate = kind {
      // The token stays valid: the client may show it again.
      return finish(slot, Session.Completion(.null, identity: .anonymous))
    }
    if case .authenticate(let token) = request, shared.configuration.isEmulator, token == "owner" {
      return finish(slot, Session.Completion(.null, identity: .administrator))
    }
    tasks[slot] = operations.begin(
      request, as: session.identity, from: client.address, completion(context, slot))
  }

  /// Carries out a read after the earlier writes of the connection. For the administrator, keeps the index
  /// that the read needs.
  private func orderedRead(
    _ context: ChannelHandlerContext, _ request: ReadRequest, _ slot: Session.Slot
  ) {
    guard case .administrator = session.identity else { return readNow(context, request, slot) }
    let bound = NIOLoopBound((self, context), eventLoop: context.eventLoop)
    let loop = context.eventLoop
    tasks[slot] = Task { [operations] in
      await operations.prepare(request)
      loop.execute {
        let (handler, context) = bound.value
        handler.readNow(context, request, slot)
        handler.advance(context)
      }
    }
  }

  private func readNow(
    _ context: ChannelHandlerContext, _ request: ReadRequest, _ slot: Session.Slot
  ) {
    shared.inbox.release()
    if !listeners.isEmpty, !shared.hub.drain() { return readAfterEvents(request, slot) }
    read(context, request, slot, in: shared.inbox.snapshot.root)
  }

  /// Carries out a read that has a slot when the events before it are sent.
  private func readAfterEvents(_ request: ReadRequest, _ slot: Session.Slot) {
    waitForEvents { [self] context, snapshot in read(context, request, slot, in: snapshot.root) }
  }

  /// Carries out a read that has a slot, in the version of the tree up to which the events are sent.
  private func read(
    _ context: ChannelHandlerContext, _ request: ReadRequest, _ slot: Session.Slot, in root: Node
  ) {
    guard session.canSend else {
      // Further events will precede the answer, and it must not be older.
      answers.delayedRead = request
      return finish(slot, Session.Completion(.null))
    }
    if let reply = operations.read(request, as: session.identity, in: root) {
      answers.nextIsCurrent = true
      finish(slot, Session.Completion(reply))
    } else {
      readLong(context, request, slot, in: root)
    }
  }

  /// Carries out a read that may take long, off the event loop.
  private func readLong(
    _ context: ChannelHandlerContext, _ request: ReadRequest, _ slot: Session.Slot, in root: Node
  ) {
    let complete = completion(context, slot)
    tasks[slot] = Task { [operations, identity = session.identity, turns = client.turns] in
      complete(
        Session.Completion(
          await operations.longRead(request, as: identity, in: root, turns: turns)))
    }
  }

  /// Returns a closure that takes the outcome of a request, from any thread.
  private func completion(
    _ context: ChannelHandlerContext, _ slot: Session.Slot
  ) -> @Sendable (Session.Completion) -> Void {
    let inbox = shared.inbox
    let bound = NIOLoopBound((self as any Connection, context), eventLoop: inbox.loop)
    return { completion in
      if inbox.loop.inEventLoop {
        bound.value.0.finish(slot, completion)
      } else {
        inbox.complete(LoopInbox.Outcome(connection: bound, slot: slot, completion: completion))
      }
    }
  }

  func finish(_ slot: Session.Slot, _ completion: Session.Completion) {
    tasks[slot] = nil
    if !measurements.isEmpty, let measurement = measurements.removeValue(forKey: slot) {
      shared.metrics.end(measurement)
    }
    session.finish(slot, completion)
    if completion.identity != nil { watchIdentity() }
    scheduled.advances = true
  }

  func advanceAfterOutcomes(_ context: ChannelHandlerContext) {
    guard scheduled.advances else { return }
    scheduled.advances = false
    advance(context)
  }
}
