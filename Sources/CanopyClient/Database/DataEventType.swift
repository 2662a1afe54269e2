internal import CanopyTree

/// What an observer is told of.
public enum DataEventType: Int, Sendable, CaseIterable {
  /// Once for each child that is there, and for each that comes to be there.
  case childAdded = 0
  /// A child that is there no more, with its last data.
  case childRemoved = 1
  /// A child, or something below it, that has changed.
  case childChanged = 2
  /// A child that has another place in the order now.
  case childMoved = 3
  /// The whole of what is there, also if that is nothing; after the events of its children.
  case value = 4

  var kind: DataEvent.Kind {
    switch self {
    case .childAdded: .childAdded
    case .childRemoved: .childRemoved
    case .childChanged: .childChanged
    case .childMoved: .childMoved
    case .value: .value
    }
  }

  init(_ kind: DataEvent.Kind) {
    switch kind {
    case .childAdded: self = .childAdded
    case .childRemoved: self = .childRemoved
    case .childChanged: self = .childChanged
    case .childMoved: self = .childMoved
    case .value: self = .value
    }
  }
}

/// What tells an observer from all others of its database.
public typealias DatabaseHandle = UInt
