package import CanopyTree

/// The id of a local listener, chosen by the layer above. Never reused.
package struct ListenerID: Hashable, Sendable {
  package let number: Int

  /// Creates an id.
  package init(_ number: Int) {
    self.number = number
  }
}

/// The id of a pending write. Ids ascend in the order of the writes, across restarts too.
package struct WriteID: Hashable, Comparable, Sendable {
  package let number: Int64

  /// Creates an id.
  package init(_ number: Int64) {
    self.number = number
  }

  package static func < (a: WriteID, b: WriteID) -> Bool { a.number < b.number }
}

/// The id of a transaction.
package struct TransactionID: Hashable, Comparable, Sendable {
  package let number: Int64

  package static func < (a: TransactionID, b: TransactionID) -> Bool { a.number < b.number }
}

/// The tag of one listen on the server. The connection maps the server's subscription number to it.
/// Tags are never reused, so late events of a stopped listen are recognised and dropped.
package struct ListenTag: Hashable, Sendable {
  package let number: Int
}

/// A location with a query: the unit of listening, synchronizing and caching.
package struct QuerySpec: Hashable, Sendable {
  /// The location.
  package var path: Path
  /// The query on its children.
  package var query: Query

  /// Creates a specification.
  package init(_ path: Path, _ query: Query = .all) {
    self.path = path
    self.query = query
  }

  /// The specification to listen to on the server. An order alone selects all children, so all
  /// unbounded queries of a location share one listen.
  package var serverSpec: QuerySpec {
    query.isUnbounded ? QuerySpec(path) : self
  }
}
