package import CanopyTree
package import CanopyWire

/// What a step of the sync tree asks the layer above to do, each list in its order.
package struct Effects: Sendable {
  /// To tell local listeners.
  package var events: [DataEvent] = []
  /// Listeners that the server refused; they are gone.
  package var cancelled: [ListenerID] = []
  /// To ask of the server. Empty while there is no connection.
  package var starts: [ServerListen] = []
  /// To end at the server, after `starts`. Empty while there is no connection.
  package var stops: [ListenTag] = []
  /// Transaction functions to call; what each returns goes to `transactionRan`.
  package var runs: [TransactionRun] = []
  /// Transactions that have ended.
  package var ended: [TransactionEnd] = []
  /// What a store has to record, all or nothing, before the next step's.
  package var changes: [StateChange] = []

  package init() {}
}

/// Something to listen to at the server (`LISTEN` with `"events":"sync"`).
package struct ServerListen: Sendable, Equatable {
  /// What the answer and the changes come back with.
  package var tag: ListenTag
  /// What is wanted.
  package var spec: QuerySpec
  /// The commit up to which the data is already here: the server need only tell what came after.
  package var since: Int64?
}

/// A call of a transaction's function.
package struct TransactionRun: Sendable, Equatable {
  package var id: TransactionID
  /// Which call it is; the answer to a call after which another was asked for is ignored.
  package var attempt: Int
  /// The present value, pending writes included; absent also when it is not known.
  package var current: Node
}

/// How a transaction ended.
package struct TransactionEnd: Sendable {
  package enum Outcome: Sendable {
    /// The server took it.
    case committed
    /// Its function returned nothing to write.
    case aborted
    /// A local `set` or `update` wrote at, over or under its location.
    case overridden
    /// It met other clients' writes `TransactionQueue.attemptsMax` times.
    case tooManyConflicts
    /// The server refused it.
    case refused(WireError)
    /// It was given up with all that was pending.
    case cancelled
  }

  package var id: TransactionID
  package var outcome: Outcome
  /// The location's value: that which was committed, else the one that stands.
  package var node: Node
}

/// A request to send to the server.
package enum Outgoing: Sendable {
  /// `SET`, `UPDATE` or `REMOVE`. The answer goes to `acknowledged` or `refused`.
  case write(WriteID, Write)
  /// `CAS`: `value` if the location still has the value `base`. The answer goes to
  /// `transactionAnswered`.
  case compareAndSet(TransactionID, Path, base: Node, value: WriteValue)
}

/// What the server said to a `CAS`.
package enum TransactionAnswer: Sendable {
  case committed
  /// The location has this value now.
  case conflict(Node)
  case refused(WireError)
}

/// One change of what survives a restart of the process.
package enum StateChange: Sendable {
  /// A write is pending from now on, made at this time (milliseconds since 1970).
  case writeAdded(WriteID, Write, milliseconds: Int64)
  /// A write is no longer pending.
  case writeRemoved(WriteID)
  /// The server told of a query, as of a commit: these places, relative to its location, have these
  /// values. One at the root replaces all that was told of it.
  case told(QuerySpec, [Assignment], sequence: Int64)
  /// A query is asked for from now on, or no longer. What is asked for is in use, and not dropped.
  case asked(QuerySpec, Bool)
  /// What is told of a query is kept, however long it is not used, or no longer is.
  case kept(QuerySpec, Bool)
}
