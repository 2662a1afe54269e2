package import CanopyTree

/// The heart of the client: what the server said, what was written here and is not confirmed, and what
/// local listeners are told of both.
///
/// A value without I/O, clock or tasks. Each step takes what happened and returns what is to be done
/// about it (`Effects`), so that every sequence of steps can be repeated. It belongs to one serial
/// executor or one lock of the layer above, which carries out the effects of each step in the order of
/// the steps; listeners' and transactions' functions are called by that layer, outside the lock.
///
/// - A query that is listened to has a view: the server's data of it, and that data with the pending
///   writes over it, which is what its listeners see. Both are kept up to date by what changes, so a
///   step costs O(depth × log siblings) for each place that it touches and each view there, whatever
///   is stored and however much else is pending.
/// - A view tells whole values once its data is complete; before that it tells of those children that
///   are known completely.
/// - A listen of a whole location covers all that is below it: the server is asked for nothing twice.
package struct SyncTree: Sendable {
  /// A tree that knows nothing, without a connection.
  package init() {}

  // MARK: Listening

  /// Adds a listener; it is told at once what is known.
  ///
  /// - Parameters:
  ///   - id: new.
  ///   - kinds: what it wants to be told; nothing to have data kept synchronised only.
  package mutating func listen(
    _ id: ListenerID, to spec: QuerySpec, for kinds: DataEvent.Kinds
  ) -> Effects {
    preconditionFailure("not built yet")
  }

  /// Removes a listener; nothing if there is none with this name.
  package mutating func unlisten(_ id: ListenerID) -> Effects {
    preconditionFailure("not built yet")
  }

  /// The value of a query with the pending writes, if it is known completely: from a listener to it
  /// or to a whole location around it, or from pending writes. O(depth), and O(answer) for a query
  /// that is narrowed down.
  package func value(of spec: QuerySpec) -> Node? {
    preconditionFailure("not built yet")
  }

  // MARK: Writing

  /// Makes a write here, and queues it for the server. Transactions at, over and under its places are
  /// overridden.
  ///
  /// - Parameter milliseconds: the server's time as far as it is known, for server values.
  package mutating func write(
    _ write: Write, at milliseconds: Int64
  ) -> (id: WriteID, effects: Effects) {
    preconditionFailure("not built yet")
  }

  /// The server has made a write. What it said of the places is what is seen from now on; where it has
  /// not said anything yet, what was written stays.
  package mutating func acknowledged(_ id: WriteID) -> Effects {
    preconditionFailure("not built yet")
  }

  /// The server has refused a write: what it did here is undone.
  package mutating func refused(_ id: WriteID) -> Effects {
    preconditionFailure("not built yet")
  }

  /// Gives up all pending writes and transactions, as if refused.
  ///
  /// - Returns: the writes, in their order.
  package mutating func purgeWrites() -> (ids: [WriteID], effects: Effects) {
    preconditionFailure("not built yet")
  }

  // MARK: Transactions

  /// Begins a transaction; the effects ask for the first call of its function.
  ///
  /// - Parameter hasLocalEvents: whether what it writes is seen here before the server confirms it.
  package mutating func beginTransaction(
    at path: Path, hasLocalEvents: Bool
  ) -> (id: TransactionID, effects: Effects) {
    preconditionFailure("not built yet")
  }

  /// A transaction's function has returned: what to write, or nil to abort.
  package mutating func transactionRan(
    _ id: TransactionID, attempt: Int, returning value: WriteValue?, at milliseconds: Int64
  ) -> Effects {
    preconditionFailure("not built yet")
  }

  /// The server has answered an `Outgoing.compareAndSet`.
  package mutating func transactionAnswered(
    _ id: TransactionID, _ answer: TransactionAnswer
  ) -> Effects {
    preconditionFailure("not built yet")
  }

  // MARK: The connection

  /// There is a connection, on which nothing has been asked yet. The effects have all listens.
  package mutating func connected() -> Effects {
    preconditionFailure("not built yet")
  }

  /// The connection is lost. What was sent and not answered will be sent again.
  package mutating func disconnected() -> Effects {
    preconditionFailure("not built yet")
  }

  /// The next request to send, in order; nil if there is none now, or no connection. To be asked after
  /// every step, as long as the connection takes more.
  package mutating func nextRequest() -> Outgoing? {
    preconditionFailure("not built yet")
  }

  // MARK: What the server says

  /// The server has taken a listen, whose data is up to date as of a commit: after what it sent first,
  /// or without anything where nothing had changed since `ServerListen.since`.
  package mutating func listening(_ tag: ListenTag, sequence: Int64) -> Effects {
    preconditionFailure("not built yet")
  }

  /// The server has refused or ended a listen. The listeners that it served are gone; those below it,
  /// which it covered, get listens of their own.
  package mutating func cancelled(_ tag: ListenTag) -> Effects {
    preconditionFailure("not built yet")
  }

  /// What stands at places below a listen's location now (`put` and `patch`), by one commit.
  ///
  /// - Parameters:
  ///   - assignments: relative to the location of the listen, which is the root.
  ///   - isPatch: whether this adds to data that the server sent before.
  package mutating func changed(
    _ tag: ListenTag, _ assignments: [Assignment], isPatch: Bool, sequence: Int64
  ) -> Effects {
    preconditionFailure("not built yet")
  }
}
