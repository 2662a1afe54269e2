internal import CanopyMetrics
internal import CanopySession
internal import NIOCore

/// Work of a connection that its event loop does later.
struct ScheduledWork {
  /// Whether `advance` must run because a request has finished.
  var advances = false
  /// Whether the connection is in the `FlushQueue`.
  var waitsForFlush = false
  /// Whether the connection is in the queue of `LoopTurns`.
  var takesTurn = false
  /// Counts the requests of the present turn.
  var turn = WorkBudget.Turn()
  /// The task that decodes a long text on another thread.
  var decoding: Task<Void, Never>?
  /// Whether the connection closes when everything is encoded.
  var closesWhenEncoded = false
  /// The task of the loop that closes the connection if the client does not.
  var lingering: Scheduled<Void>?
}

/// The state of writing to the channel of a connection. The handler keeps it, because it looks several times for each
/// request.
struct WritingState {
  /// Whether the channel is writable.
  var isWritable = true
  /// Whether output is being handed to the channel.
  var isFlushing = false
}

/// The requests of a connection that are under way, by slot, and the subscriptions that begin, by number.
struct WorkUnderWay {
  /// The tasks of requests, to cancel when the connection ends.
  var tasks: [Session.Slot: Task<Void, Never>] = [:]
  /// The work for writes before the writer gets them, to cancel when the connection ends.
  var writes: [Session.Slot: WorkBeforeWrite] = [:]
  /// The measurements of requests.
  var measurements: [Session.Slot: RequestMetrics.Measurement] = [:]
  /// The tasks that find the content with which a subscription begins.
  var resumptions: [Int64: Task<Void, Never>] = [:]

  /// Ends all work for requests, because the connection ends. No write of its requests is submitted after that.
  func cancelRequests() {
    for task in tasks.values { task.cancel() }
    for work in writes.values { work.cancel() }
  }

  /// Forgets a request that has finished, and returns its measurement; nil if it is not measured.
  mutating func end(_ slot: Session.Slot) -> RequestMetrics.Measurement? {
    tasks[slot] = nil
    if !writes.isEmpty { writes[slot] = nil }
    return measurements.isEmpty ? nil : measurements.removeValue(forKey: slot)
  }
}
