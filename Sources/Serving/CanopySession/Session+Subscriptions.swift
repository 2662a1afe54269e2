public import CanopyEngine
public import CanopyTree
public import CanopyWire

extension Session {
  /// The bytes reserved for a resumption: a page of the journal, or the list of a state until its bytes are charged.
  package static let resumptionBytes = 2 * 1024 * 1024

  /// Checks that the connection may change to another namespace: its subscriptions and its on-disconnect writes belong to
  /// the present one.
  ///
  /// - Throws: `WireError` if it has any.
  public func checkMayChangeNamespace() throws(WireError) {
    guard subscriptions.isEmpty, armed.isEmpty else {
      throw WireError(
        .conflict,
        "the connection has subscriptions or on-disconnect writes; end them with UNLISTEN and ONDISCONNECT, or "
          + "use another connection")
    }
  }

  /// Registers a subscription, and returns its number. `started` is to be called when the engine has
  /// registered its listener.
  ///
  /// - Throws: `WireError` when the connection has too many.
  public mutating func subscribe(
    _ request: SubscriptionRequest, _ slot: Slot
  ) throws(WireError) -> Int64 {
    guard subscriptions.count < limits.listenersMax else {
      throw WireError(
        .tooLarge,
        "a connection may have at most \(limits.listenersMax) subscriptions; end some first")
    }
    try checkQueries(of: request)
    lastSubscription += 1
    addSubscription(
      lastSubscription,
      Subscription(
        listening: request.listening, isAuthorized: request.authorized != nil,
        phase: .starting(slot, request), bytes: request.bytes))
    return lastSubscription
  }

  /// - Throws: `WireError` when the connection has too many different queries at the location.
  private func checkQueries(of request: SubscriptionRequest) throws(WireError) {
    let queriesMax = limits.queriesPerLocationMax
    guard subscriptions.count >= queriesMax, let listening = request.listening else { return }
    var queries: Set<Query> = []
    for case let other? in subscriptions.values.map(\.listening) where other.path == listening.path
    {
      queries.insert(other.query)
    }
    guard queries.count < queriesMax || queries.contains(listening.query) else {
      throw WireError(
        .tooLarge,
        "a connection may have at most \(queriesMax) different queries at one location; end some "
          + "first")
    }
  }

  /// Activates a subscription whose value never changes, and answers its request.
  public mutating func answerConstant(
    _ number: Int64, _ slot: Slot, sequence: Int64, _ content: SubscriptionContent
  ) {
    updateSubscription(number) { $0.phase = .active }
    finish(
      slot,
      Completion(.subscribed(Subscribed(number: number, sequence: sequence, content: content))))
  }

  /// Notes that the engine has registered the listener of a subscription, or refused it.
  ///
  /// - Parameters:
  ///   - isLarge: whether the present state takes long to measure or to encode.
  ///   - mayResume: whether the client may get the changes since the commit that it knows. If not, it gets
  ///     the present state.
  /// - Returns: whether the subscription is still wanted.
  public mutating func started(
    _ number: Int64, _ result: Result<ListenStart, WireError>, isLarge: (ListenStart) -> Bool,
    mayResume: (Int64) -> Bool
  ) -> Bool {
    guard let subscription = subscriptions[number],
      case .starting(let slot, let request) = subscription.phase,
      case .tree(let listening) = request.subject
    else { return false }
    switch result {
    case .failure(let error):
      _ = removeSubscription(number)
      finish(slot, Completion(error))
      return false
    case .success(let start):
      updateSubscription(number) { $0.isReplacement = request.since != nil }
      let since = request.since.flatMap { since in
        mayResume(since) && start.sequence - since <= request.historyMax ? since : nil
      }
      guard since != nil || isLarge(start) else {
        let content = SubscriptionContent.state(
          listening.state(of: start.node), listening, isReplacement: request.since != nil)
        activate(number, slot, start.sequence, content)
        return true
      }
      updateSubscription(number) {
        $0.phase = .resuming(slot, start.sequence, Subscription.HeldEvents())
      }
      charge(reserved: Session.resumptionBytes, heldEvents: 0)
      append(.resume(subscription: number, since: since, listening))
      return true
    }
  }

  /// Notes that a subscription's content comes from a later commit than its registration. Drops the events up to that
  /// commit, which have all come.
  public mutating func restart(_ number: Int64, at sequence: Int64) {
    var dropped = 0
    updateSubscription(number) { subscription in
      guard case .resuming(let slot, _, let held) = subscription.phase else { return }
      dropped = held.memory
      subscription.phase = .resuming(slot, sequence, Subscription.HeldEvents())
    }
    charge(reserved: 0, heldEvents: -dropped)
  }

  /// Receives the content of a subscription, and answers the request for it.
  public mutating func resumed(_ number: Int64, _ result: Result<Resumption, WireError>) {
    guard let subscription = subscriptions[number], let listening = subscription.listening,
      case .resuming(let slot, let sequence, let held) = subscription.phase
    else { return }
    let reserved = isPlanted(.reservationKept) ? 0 : Session.resumptionBytes
    charge(reserved: -reserved, heldEvents: -held.memory)
    if let code = subscription.cancellation {
      return fail(number, slot, code == .permissionDenied ? .denied : .subscriptionTooLarge)
    }
    switch result {
    case .success where held.isOverflowing:
      fail(
        number, slot,
        WireError(
          .overloaded, "too many events came while the journal was read; listen again")
      )
    case .failure(let error): fail(number, slot, error)
    case .success(let resumption):
      let content =
        switch resumption.content {
        case .changes(let events): SubscriptionContent.changes(events, listening)
        case .state(let state):
          SubscriptionContent.state(
            state, listening, isReplacement: subscription.isReplacement)
        }
      activate(number, slot, sequence, content, resumption, held.notifications)
    }
  }

  private mutating func activate(
    _ number: Int64, _ slot: Slot, _ sequence: Int64, _ content: SubscriptionContent,
    _ resumption: Resumption? = nil, _ events: [Notification] = []
  ) {
    updateSubscription(number) { $0.phase = .active }
    var subscribed = Subscribed(
      number: number, sequence: sequence, content: content, events: events)
    if let resumption {
      subscribed.bytes = resumption.bytes
      subscribed.isKnown = resumption.isKnown
    }
    finish(slot, Completion(.subscribed(subscribed)))
  }

  private mutating func fail(_ number: Int64, _ slot: Slot, _ error: WireError) {
    if removeSubscription(number) != nil {
      append(.unlisten(subscription: number, nil))
    }
    finish(slot, Completion(error))
  }

  /// Returns the fate of the events of a subscription, and keeps them if they must wait.
  ///
  /// - Parameters:
  ///   - bytes: the bytes of the encoded events, and the memory of the values in them.
  ///   - unsentEventBytes: the bytes of events that the transport has not sent.
  public mutating func admit(
    _ notifications: [Notification], bytes: ValueBytes, for number: Int64, unsentEventBytes: Int
  ) -> EventOutcome {
    guard isOpen, let stage = subscriptions[number]?.stage else { return .dropped }
    switch stage {
    case .starting: return .dropped
    case .resuming:
      hold(notifications, bytes: bytes, for: number)
      return .held
    case .active:
      // One event may be larger than the bound, if it comes before events are withheld.
      let isBacklog = unsentEventBytes > limits.queuedBytesMax / Session.withheldPartWhenWritable
      if isBacklog, unsentEventBytes + bytes.json > limits.queuedBytesMax {
        return .overloaded
      }
      return .send
    }
  }

  /// Keeps events until the resumption of a subscription is complete, or drops all if they are too many.
  ///
  /// The events are changed in place: with a second reference to the array each event would copy it.
  private mutating func hold(
    _ notifications: [Notification], bytes: ValueBytes, for number: Int64
  ) {
    var change = 0
    let bytesMax = limits.queuedBytesMax
    updateSubscription(number) { subscription in
      change = subscription.hold(notifications, bytes: bytes, bytesMax: bytesMax)
    }
    charge(reserved: 0, heldEvents: change)
  }

  /// Ends a subscription because the client asks for it.
  ///
  /// - Throws: `WireError` when the connection has no subscription with this number.
  public mutating func unsubscribe(_ number: Int64) throws(WireError) {
    guard let subscription = removeSubscription(number) else {
      throw WireError(.notFound, "this connection has no subscription \(number)")
    }
    release(subscription)
    append(.unlisten(subscription: number, nil))
  }

  /// Ends a subscription that cannot go on, and notifies the client.
  public mutating func cancel(_ number: Int64, _ code: WireError.Code) {
    guard let subscription = subscriptions[number] else { return }
    guard case .active = subscription.phase else {
      // Its request is not answered yet: the answer will have the error.
      updateSubscription(number) { $0.cancellation = code }
      return
    }
    _ = removeSubscription(number)
    append(.unlisten(subscription: number, isOpen ? code : nil))
  }

  /// Ends a subscription whose content could not be encoded; the front end answers the request itself.
  public mutating func drop(_ number: Int64) {
    guard let subscription = removeSubscription(number) else { return }
    release(subscription)
    append(.unlisten(subscription: number, nil))
  }

  /// Ends all subscriptions, because the connection ends.
  mutating func endAllSubscriptions() {
    guard !subscriptions.isEmpty else { return }
    append(.endSubscriptions(bytes: ledger.subscriptions + ledger.heldEvents))
    for subscription in removeAllSubscriptions().values { release(subscription) }
  }

  private mutating func release(_ subscription: Subscription) {
    guard case .resuming = subscription.phase else { return }
    charge(reserved: -Session.resumptionBytes, heldEvents: -subscription.heldMemory)
  }

  /// Whether the rules decide about any subscription.
  public var hasAuthorizedSubscriptions: Bool {
    subscriptions.values.contains { $0.authorized != nil }
  }
}

extension Identity {
  /// Whether the rules see no difference to another identity, now and later: both are the same login, and the other
  /// was not revoked.
  func isSameCaller(as other: Identity) -> Bool {
    switch (self, other) {
    case (.anonymous, .anonymous), (.administrator, .administrator): true
    case (.user(let login), .user(let other)):
      login.uid == other.uid && login.token.hasSameBytes(as: other.token)
        && login.email.hasSameBytes(as: other.email) && login.expiresAt == other.expiresAt
        && login.hasSameClaims(as: other)
        // At any time, because the expiry is the same.
        && other.isValid(at: .min)
    default: false
    }
  }
}
