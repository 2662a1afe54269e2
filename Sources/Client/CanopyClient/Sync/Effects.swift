package import CanopyTree
package import CanopyWire

/// The actions that a step of the sync tree requests from the layer above, each list in order.
package struct Effects: Sendable {
  /// The events for local listeners.
  package var events: [DataEvent] = []
  /// The listeners that the server refused; they are removed.
  package var cancelled: [ListenerID] = []
  /// The listens to start on the server. Empty without a connection.
  package var starts: [ServerListen] = []
  /// The listens to stop on the server, after `starts`. Empty without a connection.
  package var stops: [ListenTag] = []
  /// The transaction functions to call; `transactionRan` receives their results.
  package var runs: [TransactionRun] = []
  /// The transactions that have ended.
  package var ended: [TransactionEnd] = []
  /// The changes to record in a store, all or nothing, before those of the next step.
  package var changes: [StateChange] = []

  package init() {}
}

/// A listen to start on the server (`LISTEN` with `"events":"sync"`).
package struct ServerListen: Sendable, Equatable {
  /// The tag of its reply and of its changes.
  package var tag: ListenTag
  /// The location and the query.
  package var spec: QuerySpec
  /// The commit whose data is already here: the server sends only later changes.
  package var since: Int64?
}

/// A call of a transaction's function.
package struct TransactionRun: Sendable, Equatable {
  package var id: TransactionID
  /// The number of the call. The result of any but the latest call is ignored.
  package var attempt: Int
  /// The current value with the pending writes; absent if it is not known.
  package var current: Node
}

/// The end of a transaction.
package struct TransactionEnd: Sendable {
  package enum Outcome: Sendable {
    /// The server committed it.
    case committed
    /// Its function aborted it.
    case aborted
    /// A local `set` or `update` wrote at, above or below its location before the server had
    /// accepted its result.
    case overridden
    /// It conflicted with writes of other clients `TransactionQueue.attemptsMax` times.
    case tooManyConflicts
    /// The server refused it.
    case refused(WireError)
    /// It was dropped with all pending writes.
    case cancelled
  }

  package var id: TransactionID
  package var outcome: Outcome
  /// The committed value of the location, or else the last input of its function.
  package var node: Node
}

/// A request to send to the server.
package enum Outgoing: Sendable {
  /// A `SET`, `UPDATE` or `REMOVE`. `acknowledged` or `refused` receives the reply.
  case write(WriteID, Write)
  /// A `CAS`: sets `value` if the location still has the value `base`. `transactionAnswered`
  /// receives the reply.
  case compareAndSet(TransactionID, Path, base: Node, value: WriteValue)
}

/// The server's reply to a `CAS`.
package enum TransactionAnswer: Sendable {
  case committed
  /// The location has this value now.
  case conflict(Node)
  case refused(WireError)
}

/// A change of the state that survives a restart of the process.
package enum StateChange: Sendable {
  /// A write became pending, at a time in milliseconds since 1970.
  case writeAdded(WriteID, Write, milliseconds: Int64)
  /// A write is no longer pending: the server has answered it, or the application has withdrawn it.
  case writeRemoved(WriteID)
  /// The server sent new values for locations of a query, relative to its location, as of a commit.
  /// An assignment to the root replaces all earlier data.
  case received(QuerySpec, [Assignment], sequence: Int64)
  /// The client started or stopped listening to a query. Data that is listened to is in use, and
  /// never dropped.
  case listening(QuerySpec, Bool)
  /// The data of a query is kept even if it is not used, or no longer.
  case kept(QuerySpec, Bool)
}
