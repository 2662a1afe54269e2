internal import CanopyEngine
internal import CanopyEvents
internal import CanopySession
internal import CanopyTree
internal import CanopyWire
internal import Logging
internal import NIOCore

/// The beginning of a subscription.
extension LineHandler {
  /// Begins to listen at the hub.
  func begin(_ number: Int64, _ listening: Listening, isAuthorized: Bool) {
    let identity = session.identity
    let authorization =
      isAuthorized ? operations.listenAuthorization(listening, as: identity) : nil
    if authorization != nil { watchIdentity() }
    let subscription = HubSubscription(
      number: number, isAuthorized: isAuthorized, network: client.turns?.network, subscriber: self)
    subscribers[number] = subscription
    let owner = operations.listenerOwner(at: client.address, as: identity)
    begin(subscription, listening, authorization, owner: owner) { [self] result in
      let result = result.mapError {
        $0.error(operations, "subscriptions; end some first")
      }
      let limits = operations.limits
      started(number, result) { start in
        !EventLines.isSmall(start, bytesMax: min(limits.wholeReplyBytesMax, limits.replyBytesMax))
      } mayResume: {
        guard case .success(let start) = result else { return false }
        return operations.mayResume(start, since: $0, isAuthorized: isAuthorized, as: identity)
      }
    }
  }

  /// Sends the answer to a request for a subscription, and the events that waited for it.
  func begin(_ context: ChannelHandlerContext, _ subscribed: Subscribed) {
    let isSent = shared.codec.encode(
      .subscribed(subscribed), to: &output, counting: shared.metrics)
    noteUnsent(context)
    // An error was sent instead: the first event is too large.
    guard isSent else { return session.drop(subscribed.number) }
    guard !subscribed.events.isEmpty, let subscription = subscribers[subscribed.number] else {
      return
    }
    hub.deliver(subscribed.events, to: subscription)
  }
}

extension Operations {
  /// Returns the content with which a subscription begins, and its size; or the error for the client.
  ///
  /// - Parameters:
  ///   - since: the last commit that the client knows; nil for none.
  ///   - turns: the connection and its network, which share their turns.
  func resumption(
    _ since: Int64?, _ start: ListenStart, _ turns: TurnGroup?
  ) async -> Result<Resumption, WireError> {
    do {
      return .success(try await findResumption(since, start, turns))
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

  /// - Throws: `WireError` when an event is larger than a line may be; the error of the journal.
  private func findResumption(
    _ since: Int64?, _ start: ListenStart, _ turns: TurnGroup?
  ) async throws -> Resumption {
    let state = { @Sendable [limits] () throws(WireError) in
      Resumption(events: nil, bytes: try EventLines.size(of: start, limits: limits))
    }
    guard let since else { return try await beside(turns, state) }
    // Otherwise every change of a value that is too large to send would have it measured again.
    if start.listening.form == .value { _ = try await beside(turns, state) }
    guard let events = try await engine.changes(since: since, to: start, for: turns) else {
      return try await beside(turns, state)
    }
    return try await beside(turns) { [limits] () throws(WireError) in
      let bytes = try EventLines.size(of: events, start.listening, limits: limits)
      return Resumption(events: events, bytes: bytes)
    }
  }
}
