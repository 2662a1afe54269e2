internal import CanopyTree
internal import CanopyWire

/// A registration or cancellation of an on-disconnect write.
struct DisconnectOperation: Sendable {
  enum Kind: Sendable {
    case set(WriteValue)
    case update([(Location, WriteValue)])
    case cancel
  }

  var number: Int
  var path: Path
  var kind: Kind
  var completion: Answer<DatabaseError?>?
}

/// The on-disconnect writes that the server has registered for the current connection, in order.
struct RegisteredWrites: Sendable {
  private(set) var items: [(location: Location, value: WriteValue)] = []

  /// Takes a confirmed operation. It replaces earlier writes at and below its locations, as on the
  /// server.
  mutating func take(_ operation: DisconnectOperation) {
    switch operation.kind {
    case .set(let value): replace([(Location(operation.path), value)])
    case .update(let changes):
      replace(
        changes.map { location, value in
          let path = operation.path.appending(location.path)
          return (Location(path, isPriority: location.isPriority), value)
        })
    case .cancel: remove(coveredBy: [Location(operation.path)])
    }
  }

  private mutating func replace(_ new: [(location: Location, value: WriteValue)]) {
    remove(coveredBy: new.map(\.location))
    items += new
  }

  private mutating func remove(coveredBy locations: [Location]) {
    items.removeAll { item in
      locations.contains { location in
        location.isPriority
          ? location == item.location : item.location.path.hasPrefix(location.path)
      }
    }
  }
}

/// On-disconnect writes: registered with the server, which applies them at the end of the
/// connection. Unsent ones wait for the next connection.
extension RepositoryState {
  func onDisconnect(
    _ path: Path, _ kind: DisconnectOperation.Kind,
    completion: Answer<DatabaseError?>?
  ) {
    if let ending { return fail(completion, ending) }
    connectIfWanted()
    lastDisconnect += 1
    let operation = DisconnectOperation(
      number: lastDisconnect, path: path, kind: kind, completion: completion)
    disconnectRequests.append(operation)
    if phase.isReady { send(operation) }
  }

  func send(_ operation: DisconnectOperation) {
    if !send(.disconnect(operation), .disconnect(operation)) {
      take(WireError(.tooLarge, "the write is longer than a line may be"), of: operation)
    }
  }

  func take(_ error: WireError?, of operation: DisconnectOperation) {
    disconnectRequests.removeAll { $0.number == operation.number }
    if error == nil { registeredWrites.take(operation) }
    operation.completion?(error.map { DatabaseError($0) }, self)
  }

  /// Shows the registered writes to the observers of this client, at the end of the connection: the
  /// server applies them now, and cannot say so.
  func applyRegisteredWrites() {
    let items = registeredWrites.items
    registeredWrites = RegisteredWrites()
    guard !items.isEmpty else { return }
    let writes = items.compactMap { item in
      try? Write.set(item.location, item.value)
    }
    perform(tree.disconnectWritesMade(writes, at: clock.now))
  }

  /// Drops the operations that wait for a connection.
  func purgeDisconnectRequests(_ error: DatabaseError) {
    // The server has received the others.
    guard !phase.isReady else { return }
    let waiting = disconnectRequests
    disconnectRequests = []
    for operation in waiting { operation.completion?(error, self) }
  }
}
