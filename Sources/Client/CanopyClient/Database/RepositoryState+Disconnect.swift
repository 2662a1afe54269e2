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

/// On-disconnect writes: registered with the server, which applies them at the end of the
/// connection. Unsent ones wait for the next connection.
extension RepositoryState {
  func onDisconnect(
    _ path: Path, _ kind: DisconnectOperation.Kind,
    completion: Answer<DatabaseError?>?
  ) {
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
    operation.completion?(error.map { DatabaseError($0) }, self)
  }
}
