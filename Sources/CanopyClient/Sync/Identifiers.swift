package import CanopyTree

/// A local listener, as the layer above named it. Names are not used again.
package struct ListenerID: Hashable, Sendable {
  package let number: Int

  /// A name of a listener.
  package init(_ number: Int) {
    self.number = number
  }
}

/// A pending write. Ascending in the order in which the writes were made, across restarts too.
package struct WriteID: Hashable, Comparable, Sendable {
  package let number: Int64

  /// A name of a write.
  package init(_ number: Int64) {
    self.number = number
  }

  package static func < (a: WriteID, b: WriteID) -> Bool { a.number < b.number }
}

/// A transaction that has not ended.
package struct TransactionID: Hashable, Comparable, Sendable {
  package let number: Int64

  package static func < (a: TransactionID, b: TransactionID) -> Bool { a.number < b.number }
}

/// One listen of the server. The connection maps the server's subscription number to it; a tag is not
/// used again, so that what arrives late for a listen that was stopped is told apart and dropped.
package struct ListenTag: Hashable, Sendable {
  package let number: Int
}

/// A location and which of its children: what one listens to, keeps synchronised and caches.
package struct QuerySpec: Hashable, Sendable {
  /// The location.
  package var path: Path
  /// Which of its children.
  package var query: Query

  /// What is to be listened to.
  package init(_ path: Path, _ query: Query = .all) {
    self.path = path
    self.query = query
  }

  /// What the server is asked for: an order alone narrows nothing down, so that all queries without
  /// bounds and limit of a location are one listen.
  package var asked: QuerySpec {
    query.isUnbounded ? QuerySpec(path) : self
  }
}
