internal import CanopyEngine
internal import CanopyEvents
internal import CanopySession
internal import CanopyTree
internal import CanopyWire
internal import NIOCore

extension EventStream {
  /// A stream, for code that does not run on its event loop.
  struct Handle: Sendable {
    private let stream: NIOLoopBoundBox<EventStream?>
    private let loop: any EventLoop
    /// Keeps the namespace open while the stream is sent; nil for the default one.
    private let lease: NamespaceLease?

    /// Begins to listen.
    ///
    /// - Parameters:
    ///   - operations: the operations on a namespace.
    ///   - lease: keeps that namespace open; nil for the default one.
    /// - Throws: `WireError` if the client may not listen, or the stream cannot begin, or the task is cancelled because
    ///   the connection is lost.
    static func begin(
      _ path: Path, _ query: Query, as identity: Identity, on connection: GatewayConnection,
      in operations: Operations, _ lease: NamespaceLease?, keepAliveMilliseconds: Int64
    ) async throws(WireError) -> Handle {
      let loop = connection.channel.eventLoop
      let handle = Handle(
        stream: .makeEmptyBox(valueType: EventStream.self, eventLoop: loop), loop: loop,
        lease: lease)
      let error: WireError? = await withTaskCancellationHandler {
        await withCheckedContinuation { continuation in
          loop.execute {
            // A connection is lost on its loop. So from here on its end finds the stream.
            guard connection.unlessLost({ true }) == true else {
              return continuation.resume(returning: WireError.cancelled)
            }
            let stream = EventStream(
              connection, as: identity, connection.loop.value.loop(of: operations),
              keepAliveMilliseconds: keepAliveMilliseconds)
            handle.stream.value = stream
            stream.begin(path, query, continuation)
          }
        }
      } onCancel: {
        handle.end()
      }
      if let error { throw Task.isCancelled ? WireError.cancelled : error }
      return handle
    }

    /// Returns the next bytes to send, when there are any and those before were sent; nil at the end.
    func next() async -> ByteBuffer? {
      await withCheckedContinuation { continuation in
        loop.execute {
          guard let stream = stream.value else { return continuation.resume(returning: nil) }
          stream.next(continuation)
        }
      }
    }

    /// Adds the stream to the state of its connection. Called on the loop.
    func add(to client: inout ClientState, listMax: Int) {
      stream.value?.add(to: &client, listMax: listMax)
    }

    /// Ends the stream.
    func end() {
      loop.execute { stream.value?.end() }
    }

    /// Ends the stream with `auth_revoked` if the login of its user has ended.
    func endIfRevoked() {
      loop.execute {
        guard let stream = stream.value, stream.phase == .active, stream.isRevoked else { return }
        stream.revoke()
      }
    }

    /// Ends the stream when everything is sent.
    func finish() {
      loop.execute { stream.value?.finish() }
    }
  }
}
