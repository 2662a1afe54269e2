package import CanopyEngine
package import CanopySession
internal import CanopyTree
package import CanopyWire
internal import Logging
package import NIOCore

/// The version of the tree with which a subscription begins. It is taken on the event loop, when the turn of the
/// subscription has come.
package struct ResumptionStart: Sendable {
  /// Returns the version; nil if events up to it are to be delivered before.
  let take: @Sendable () async -> ListenStart?
  /// Waits until these events are delivered.
  let eventsSent: @Sendable () async -> Void

  /// - Parameters:
  ///   - take: has the session restart at the present snapshot, and returns it; nil if events are to be delivered before.
  ///   - wait: calls its argument when they are delivered.
  package init(
    on loop: any EventLoop, take: @escaping () -> ListenStart?,
    wait: @escaping (_ body: @escaping () -> Void) -> Void
  ) {
    let take = NIOLoopBound(take, eventLoop: loop)
    let wait = NIOLoopBound(wait, eventLoop: loop)
    self.take = {
      await withCheckedContinuation { continuation in
        loop.execute { continuation.resume(returning: take.value()) }
      }
    }
    eventsSent = {
      await withCheckedContinuation { continuation in
        loop.execute { wait.value { continuation.resume() } }
      }
    }
  }
}

extension Operations {
  /// There are events that are to be delivered before a subscription can begin.
  private struct EventsComeFirst: Error {}

  /// Returns the content with which a subscription begins, ready to be encoded, and its size; or the error for the
  /// client. All of it is found on another thread.
  ///
  /// - Parameters:
  ///   - since: the last commit that the client knows; nil for none.
  ///   - hash: the hash of the value that the client has; nil for none.
  ///   - turns: the connection and its network, which share their turns.
  package func resumption(
    of listening: Listening, since: Int64? = nil, hash: String? = nil, _ turns: TurnGroup?,
    in start: ResumptionStart
  ) async -> Result<Resumption, WireError> {
    do {
      if let since, let changes = try await changes(since, listening, turns, in: start) {
        return .success(changes)
      }
      if let hash {
        return .success(try await state(listening, comparedWith: hash, turns, in: start))
      }
      return .success(
        try await beside(turns, in: start.take, after: start.eventsSent) { [limits] start in
          let bytes = try EventLines.size(of: start, limits: limits)
          return Resumption(stateOf: start.node, listening, bytes: bytes)
        })
    } catch let error as WireError {
      return .failure(error)
    } catch {
      if !Task.isCancelled {
        logger.error("the journal cannot be read", metadata: ["error": "\(error)"])
      }
      return .failure(
        WireError(
          .unavailable, "the changes cannot be read now; listen without since, or try later"))
    }
  }

  /// Returns the present state, and whether the client has it already.
  ///
  /// - Parameter hash: the hash of the value that the client has.
  private func state(
    _ listening: Listening, comparedWith hash: String, _ turns: TurnGroup?,
    in start: ResumptionStart
  ) async throws -> Resumption {
    for _ in 0..<Operations.versionTriesMax {
      let found = try await hashing(turns, in: start.take, of: \.node) { [limits] start, pause in
        let bytes = try EventLines.size(of: start, limits: limits)
        var resumption = Resumption(stateOf: start.node, listening, bytes: bytes)
        if case .state(.value(let node)) = resumption.content {
          resumption.isKnown = try node.hash(pausing: pause).hasSameBytes(as: hash)
        }
        return resumption
      }
      if let found { return found }
      await start.eventsSent()
    }
    throw WireError.tooManyEvents
  }

  /// - Returns: nil if the client is to get the present state.
  /// - Throws: `WireError` when an event is larger than a line may be; the error of the journal.
  private func changes(
    _ since: Int64, _ listening: Listening, _ turns: TurnGroup?, in start: ResumptionStart
  ) async throws -> Resumption? {
    if listening.form == .value {
      // Otherwise the server would measure a value that is too large to send again at each change.
      _ = try await beside(turns, in: start.take, after: start.eventsSent) { [limits] start in
        try EventLines.size(of: start, limits: limits)
      }
    }
    for _ in 0..<Operations.versionTriesMax {
      do {
        return try await engine.changes(
          since: since, to: try await Self.present(start), for: turns
        ) { [limits] events in
          let bytes = try EventLines.size(of: events, listening, limits: limits)
          guard case .value(let node)? = events.first else {
            return Resumption(changes: events, bytes: bytes)
          }
          return Resumption(stateOf: node, listening, bytes: bytes)
        }
      } catch is EventsComeFirst {
        await start.eventsSent()
      }
    }
    throw WireError.tooManyEvents
  }

  private static func present(_ start: ResumptionStart) async throws -> ListenStart {
    guard let start = await start.take() else { throw EventsComeFirst() }
    return start
  }
}
