package import CanopyTree

/// An event for one local listener.
package struct DataEvent: Sendable, Equatable {
  /// The kinds of events, in the sequence in which the events of one change are sent.
  package enum Kind: Int, Sendable, Hashable, CaseIterable {
    case childRemoved
    case childAdded
    case childMoved
    case childChanged
    case value
  }

  /// The kinds that a listener receives. With none, it only keeps the data synchronized.
  package struct Kinds: OptionSet, Sendable {
    package let rawValue: UInt8

    package init(rawValue: UInt8) {
      self.rawValue = rawValue
    }

    /// Creates the set of one kind.
    package init(_ kind: Kind) {
      rawValue = 1 << UInt8(kind.rawValue)
    }

    package static let value = Kinds(.value)
    /// The four kinds about children.
    package static let children = Kinds(rawValue: 0b1111)
    package static let all = Kinds(rawValue: 0b1_1111)
  }

  /// The listener that receives the event.
  package var listener: ListenerID
  package var kind: Kind
  /// The key of the child; nil for `value`.
  package var key: Key?
  /// The child's data, or a removed child's last data; for `value`, the query's result.
  package var node: Node
  /// The preceding child in the result; nil for the first, for a removed child and for `value`.
  package var previous: Key?
}
