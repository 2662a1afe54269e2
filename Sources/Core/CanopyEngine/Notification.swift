internal import CanopyTree
internal import Synchronization

/// The events of one commit for one view. All listeners of the view share it.
///
/// An event loop that is behind merges commits. The notification then has the events of several, as if they were
/// one.
public final class Notification: Sendable {
  /// The sequence number of the commit; of several, that of the last.
  public let sequence: Int64
  private let listening: Listening
  private let content: Mutex<Content>
  private let derived = Mutex(Derived())
  private let derivedBytes: DerivedBytes?

  private struct Content {
    var change: CommittedChange?
    var events: [ListenEvent]?
  }

  private struct Derived {
    var values: [ObjectIdentifier: any Sendable] = [:]
    /// The bytes that are reserved for them.
    var bytes = 0
  }

  /// - Parameter derivedBytes: the memory for values that `shared` keeps; nil for no bound.
  init(_ listening: Listening, _ change: CommittedChange, _ derivedBytes: DerivedBytes? = nil) {
    sequence = change.sequence
    self.listening = listening
    content = Mutex(Content(change: change))
    self.derivedBytes = derivedBytes
  }

  deinit {
    derivedBytes?.release(derived.withLock { $0.bytes })
  }

  /// The events, in the order in which they are sent; empty if the commit changed nothing that the view shows.
  ///
  /// The first caller computes them, while others wait. That takes time in proportion to the change.
  public var events: [ListenEvent] {
    content.withLock { content in
      if let events = content.events { return events }
      let events = content.change?.events(for: listening) ?? []
      content.events = events
      return events
    }
  }

  /// Whether computing the events may take long. Never waits for another caller that computes them.
  ///
  /// - Parameters:
  ///   - bytesMax: the bytes of a commit that are compared fast.
  ///   - childrenMax: the number of children that are compared fast.
  public func takesLong(bytesMax: Int, childrenMax: Int) -> Bool {
    let takesLong = content.withLockIfAvailable { content in
      guard content.events == nil, let change = content.change else { return false }
      return change.bytes > bytesMax || change.childrenCompared(for: listening) > childrenMax
    }
    return takesLong ?? true
  }

  /// The commit, with the versions of the tree that it keeps in memory; nil after `releaseChange`.
  public var change: CommittedChange? { content.withLock { $0.change } }

  /// Computes the events if necessary, and releases the versions of the tree.
  public func releaseChange() {
    _ = events
    content.withLock { $0.change = nil }
  }

  /// Returns a value that is made from this notification. It is made once and shared by all callers, while there
  /// is memory to keep it: the text that every subscriber receives.
  ///
  /// - Parameters:
  ///   - make: the same for all callers that ask for the type. Others wait for it.
  ///   - bytes: the memory that the value takes.
  public func shared<Value: Sendable>(
    _ make: () -> Value, bytes: (Value) -> Int = { _ in 0 }
  ) -> Value {
    derived.withLock { derived in
      if let value = derived.values[ObjectIdentifier(Value.self)] as? Value { return value }
      let value = make()
      let bytes = bytes(value)
      guard derivedBytes?.reserve(bytes) ?? true else { return value }
      derived.bytes += bytes
      derived.values[ObjectIdentifier(Value.self)] = value
      return value
    }
  }
}

/// The memory for values that notifications share. A notification waits for its slowest event loop, so without a
/// bound a busy loop would keep the texts of all commits in memory. Safe to use from any thread.
final class DerivedBytes: Sendable {
  private let bytesMax: Int
  private let used = Atomic(0)

  init(bytesMax: Int = 32 * 1024 * 1024) {
    self.bytesMax = bytesMax
  }

  /// The bytes in use.
  var count: Int { used.load(ordering: .relaxed) }

  /// Reserves bytes. Returns whether there were as many.
  func reserve(_ bytes: Int) -> Bool {
    let total = used.add(bytes, ordering: .relaxed).newValue
    if total <= bytesMax { return true }
    release(bytes)
    return false
  }

  func release(_ bytes: Int) {
    used.subtract(bytes, ordering: .relaxed)
  }
}
