/// The parts of a session whose bytes are charged to its ledger.
extension Session {
  mutating func setArmed(_ armed: [ArmedWrite]) {
    self.armed = armed
    ledger.armed = armed.reduce(0) { $0 + $1.memoryBytes }
    chargeLogins()
  }

  /// Charges the login of the connection, and those in which its on-disconnect writes were armed, once each.
  mutating func chargeLogins() {
    var logins: [ObjectIdentifier: Int] = [:]
    if let own = identity.session { logins[ObjectIdentifier(own)] = own.memoryBytes }
    for case let login? in armed.lazy.map(\.session?.session) {
      logins[ObjectIdentifier(login)] = login.memoryBytes
    }
    ledger.logins = logins.values.reduce(0, +)
  }

  /// Adds a subscription and charges its bytes.
  mutating func addSubscription(_ number: Int64, _ subscription: Subscription) {
    assert(subscriptions[number] == nil, "a subscription has the number of another")
    subscriptions[number] = subscription
    ledger.subscriptions += subscription.bytes
    assertSubscriptionsAreCharged()
  }

  /// Changes a subscription that has not ended. The bytes charged for it stay the same.
  mutating func updateSubscription(_ number: Int64, _ change: (inout Subscription) -> Void) {
    guard let index = subscriptions.index(forKey: number) else { return }
    change(&subscriptions.values[index])
  }

  /// Removes a subscription and releases its bytes. Returns nil if the number is unknown.
  mutating func removeSubscription(_ number: Int64) -> Subscription? {
    guard let subscription = subscriptions.removeValue(forKey: number) else { return nil }
    ledger.subscriptions -= subscription.bytes
    if let bytes = subscription.withheldBytes { releaseWithheld(bytes) }
    assertSubscriptionsAreCharged()
    return subscription
  }

  /// Removes all subscriptions, releases their bytes, and returns them.
  mutating func removeAllSubscriptions() -> [Int64: Subscription] {
    defer {
      for bytes in subscriptions.values.compactMap(\.withheldBytes) { releaseWithheld(bytes) }
      subscriptions = [:]
      ledger.subscriptions = 0
    }
    return subscriptions
  }

  private func assertSubscriptionsAreCharged() {
    ledger.assertValid()
    assert(
      ledger.subscriptions == subscriptions.values.reduce(0) { $0 + $1.bytes },
      "the ledger does not have the bytes of the subscriptions")
  }

  mutating func charge(reserved: Int, heldEvents: Int) {
    ledger.reserved += reserved
    ledger.heldEvents += heldEvents
    ledger.assertValid()
  }

  mutating func updateLedger() {
    ledger.requests = queue.requestBytes
    ledger.replies = queue.replyBytes
    ledger.assertValid()
  }
}
