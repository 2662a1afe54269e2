internal import CanopyTree
internal import Synchronization

/// A commit, as one view is notified of it: made once and handed to all its listeners.
public final class Notification: Sendable {
  /// The sequence number of the commit.
  public let sequence: Int64
  private let listening: Listening
  private let content: Mutex<Content>
  private let derived = Mutex<[ObjectIdentifier: any Sendable]>([:])

  private enum Content {
    /// The roots before and after the commit, and what it wrote.
    case pending(Node, Node, [Assignment])
    case found([ListenEvent])
  }

  init(_ listening: Listening, _ change: Change) {
    sequence = change.commit.sequence
    self.listening = listening
    content = Mutex(.pending(change.before, change.after, change.commit.assignments))
  }

  /// The events, in the order in which they are told; none if the commit changed nothing that the
  /// listeners are shown.
  ///
  /// Found when they are first asked for, by the thread that asks, while others that ask wait. That takes
  /// as long as much has changed.
  public var events: [ListenEvent] {
    content.withLock { content in
      switch content {
      case .found(let events): return events
      case .pending(let old, let new, let assignments):
        let events = listening.events(from: old, to: new, by: assignments)
        content = .found(events)
        return events
      }
    }
  }

  /// Returns what `make` makes of this. It is made once, by the first that asks, and shared by all: the
  /// text that every subscriber is sent.
  ///
  /// - Parameter make: the same for all that ask for the type. Others wait for it.
  public func shared<Value: Sendable>(_ make: () -> Value) -> Value {
    derived.withLock { derived in
      if let value = derived[ObjectIdentifier(Value.self)] as? Value { return value }
      let value = make()
      derived[ObjectIdentifier(Value.self)] = value
      return value
    }
  }
}
