/// A defect that the simulation plants in the engine, the server or the client, to prove that its checks find it.
///
/// Debug builds alone have the defects. In release builds `isPlanted` is always false, and the compiler removes
/// the code behind it.
@usableFromInline
package enum PlantedDefect: String, CaseIterable, Sendable {
  /// A writer gets its outcome before the journal has its commit.
  case replyBeforeDurable
  /// Readers see a commit before the journal has it.
  case readBeforeDurable
  /// Listeners get the events of a commit before the journal has it.
  case eventBeforeDurable
  /// A writer gets its outcome before listeners get the events of its commit.
  case replyBeforeEvents
  /// After a failed append the writers hear that it stored nothing, although it may have.
  case failureWithoutQuestion
  /// A write of a batch that failed is remembered as made.
  case failedWriteRemembered
  /// A write is not remembered, so that a second copy is made again.
  case writeNotRemembered
  /// The server forgets one more write than the client has seen the reply of.
  case forgetsOneTooMany
  /// A client that resumes misses the first commit after the one that it knows.
  case resumeOffByOne
  /// The next task in the queue for a turn is not resumed at the end of a turn.
  case lostWakeUp
  /// A checkpoint claims one commit more than its tree has.
  case checkpointOffByOne
  /// The commit of on-disconnect writes does not complete them, so a later start makes them again.
  case disconnectWritesTwice
  /// The on-disconnect writes of the last process are not made at the start.
  case disconnectWritesLost
  /// The star count of the copy of a post under its author stays as it is.
  case starNotCounted
  /// The listener of a closed connection is not removed.
  case listenerLeaked
  /// The events of the second of two commits in a batch are dropped.
  case eventDropped
  /// A read sees the snapshot of the last read on its event loop.
  case snapshotKept
  /// The memory that a resumption reserves stays charged after its end.
  case reservationKept
  /// The memory of a connection stays charged after its end.
  case memoryKept
  /// The client does not send a write again whose reply was lost.
  case writeNotResent
  /// The client does not set the subscriptions of a new connection up to date with the missed changes.
  case repliesOvertakeEvents

  #if DEBUG
    /// The planted defect. Only the simulation sets it, before anything runs.
    @usableFromInline package nonisolated(unsafe) static var planted: PlantedDefect?
  #endif
}

/// Whether a defect is planted. False in release builds.
@inlinable @inline(__always)
package func isPlanted(_ defect: PlantedDefect) -> Bool {
  #if DEBUG
    return PlantedDefect.planted == defect
  #else
    return false
  #endif
}
