package import CanopySession
package import CanopyTree
internal import CanopyWire
package import NIOCore

/// Requests besides reads: long texts, turns, and outcomes from other threads.
extension SessionHandler {
  /// Decodes a long text on another thread, and passes the result to `receive`. Meanwhile the connection decodes
  /// nothing else and begins no request.
  ///
  /// The memory of the result is charged before. If there is no room for it, `receive` gets `WireError.noMemory` at once.
  ///
  /// - Parameter decode: gets the text, the bytes that are charged for its result, and the pauses to make.
  package final func decodeBeside<Decoded: Sendable>(
    _ context: ChannelHandlerContext, _ text: UnsafeRawBufferPointer,
    _ decode:
      @escaping @Sendable (
        UnsafeRawBufferPointer, _ bytes: Int, _ pause: DecodingPause
      ) throws -> Decoded,
    receive: @escaping (Result<Decoded, any Error>) -> Void
  ) {
    assertInEventLoop()
    let bytes = Request.memoryBytes(text: text)
    keptInput.bytesBeside = text.count + bytes
    guard admitInput() else {
      keptInput.bytesBeside = 0
      noteInput()
      return receive(.failure(WireError.noMemory))
    }
    let text = Array(text)
    session.pause(true)
    let bound = NIOLoopBound((self, context, receive), eventLoop: context.eventLoop)
    let loop = context.eventLoop
    scheduled.decoding = Task { [operations, turns = client.turns] in
      let decoded: Result<Decoded, any Error>
      do {
        decoded = .success(
          try await operations.decodeBeside(bytes: text.count, turns) { pause in
            try text.withUnsafeBytes { try decode($0, bytes, DecodingPause(pause)) }
          })
      } catch {
        decoded = .failure(error)
      }
      loop.execute {
        let (handler, context, receive) = bound.value
        handler.scheduled.decoding = nil
        handler.keptInput.bytesBeside = 0
        handler.session.pause(false)
        receive(decoded)
        handler.advance(context)
      }
    }
  }

  /// Counts a request. At the end of the connection's turn the session pauses: no further request begins
  /// before the next turn.
  ///
  /// - Parameter bytes: the length of its text if the text is yet to be decoded; else 0.
  package final func countWork(bytes: Int = 0) {
    guard services.work.count(&scheduled.turn, bytes: bytes), !session.isPaused else { return }
    session.pause(true)
    takeTurnLater()
  }

  // MARK: Input

  /// Whether input is to be decoded. If so, later reads see all commits that the client may know of, although the loop
  /// has not read them yet.
  package final func beginInput() -> Bool {
    assertInEventLoop()
    guard session.takesInput, !endsWithLogin() else { return false }
    hub.inbox.release()
    return true
  }

  /// Whether the session accepts requests now.
  package final var wantsInput: Bool { session.wantsInput }

  // MARK: Other requests

  /// Returns the work for a write before the writer gets it. It ends with the connection.
  package final func workBeforeWrite(_ slot: Session.Slot) -> WorkBeforeWrite {
    let work = WorkBeforeWrite()
    underWay.writes[slot] = work
    return work
  }

  final func beginAccount(
    _ context: ChannelHandlerContext, _ request: AccountRequest, _ slot: Session.Slot
  ) {
    let identity = session.identity
    if case .logOut = request { endOwnLogin() }
    let outcome = pendingOutcome(context, slot)
    let task = operations.begin(request, as: identity, from: client.address, session.armed) {
      outcome.complete($0)
    }
    if request.endsWithConnection { underWay.tasks[slot] = task }
  }

  final func beginAdministration(
    _ context: ChannelHandlerContext, _ request: AdministrationRequest, _ slot: Session.Slot
  ) {
    if case .endPass(let token) = request, isOwnLogin(token) {
      endOwnLogin()
      return finish(slot, Session.Completion(.json(.bool(true)), identity: .anonymous))
    }
    let outcome = pendingOutcome(context, slot)
    operations.begin(request, as: session.identity, on: client.id, from: client.address) {
      outcome.complete($0)
    }
  }

  final func beginConnection(
    _ context: ChannelHandlerContext, _ request: ConnectionRequest, _ slot: Session.Slot
  ) {
    if case .use = request {
      do throws(WireError) { try session.checkMayChangeNamespace() } catch {
        return finish(slot, Session.Completion(error))
      }
    }
    let outcome = pendingOutcome(context, slot)
    operations.begin(
      request, as: session.identity, from: client.address, turns: client.turns, session.armed,
      in: logins.held?.login
    ) { outcome.complete($0) }
  }

  final func beginListening(
    _ context: ChannelHandlerContext, _ request: ListenRequest, _ slot: Session.Slot
  ) {
    if session.isBehind {
      // A subscription begins with a value that is newer than the events that are withheld.
      return wait(for: .listen(request, slot))
    }
    do throws(WireError) { try clientProtocol?.listen(context, request, slot) } catch {
      finish(slot, Session.Completion(error))
    }
  }

  // MARK: Outcomes

  package final func pendingOutcome(
    _ context: ChannelHandlerContext, _ slot: Session.Slot
  ) -> PendingOutcome {
    let inbox = services.inbox
    return PendingOutcome(
      inbox: inbox, connection: NIOLoopBound((self, context), eventLoop: inbox.loop), slot: slot)
  }
}
