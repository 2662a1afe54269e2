internal import CanopyTree

/// The type of an event.
public enum DataEventType: Int, Sendable, CaseIterable {
  /// A child: once for each existing child, then for each new one.
  case childAdded = 0
  /// A removed child, with its last data.
  case childRemoved = 1
  /// A child that changed, or has a changed node below it.
  case childChanged = 2
  /// A child whose position in the order changed.
  case childMoved = 3
  /// The whole value, also if it is nil; after the events of the children.
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

/// The handle of an observer, unique within its database.
public typealias DatabaseHandle = UInt
