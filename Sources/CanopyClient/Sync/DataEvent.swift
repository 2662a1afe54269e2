package import CanopyTree

/// Something that one local listener is told.
package struct DataEvent: Sendable, Equatable {
  /// What happened, in the sequence in which the events of one change are told.
  package enum Kind: Int, Sendable, Hashable, CaseIterable {
    case childRemoved
    case childAdded
    case childMoved
    case childChanged
    case value
  }

  /// The kinds that a listener wants. With none, it only has the data kept synchronised.
  package struct Kinds: OptionSet, Sendable {
    package let rawValue: UInt8

    package init(rawValue: UInt8) {
      self.rawValue = rawValue
    }

    /// Just this kind.
    package init(_ kind: Kind) {
      rawValue = 1 << UInt8(kind.rawValue)
    }

    package static let value = Kinds(.value)
    /// The four about children.
    package static let children = Kinds(rawValue: 0b1111)
    package static let all = Kinds(rawValue: 0b1_1111)
  }

  /// Who is told.
  package var listener: ListenerID
  package var kind: Kind
  /// The child; nil for `value`.
  package var key: Key?
  /// The child's data, of one that was removed its last; for `value`, what the query shows.
  package var node: Node
  /// The shown child before it; nil for the first, for one that was removed and for `value`.
  package var previous: Key?
}
