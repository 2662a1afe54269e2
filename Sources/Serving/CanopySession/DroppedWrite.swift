internal import CanopyEngine
internal import CanopyTree
internal import CanopyWire
internal import Logging
internal import Synchronization

/// An on-disconnect write that is not made.
struct DroppedWrite {
  let write: ArmedWrite
  /// The reason in words; nil if the rules or a revoked session forbid the write.
  let reason: String?

  /// Returns the writes that an outcome denies.
  static func denied(in outcome: WritesOutcome, of writes: [ArmedWrite]) -> [DroppedWrite] {
    outcome.denied.map { index in
      let error = outcome.errors[index]
      let isDenied = error as? EngineError == .denied
      let reason = isDenied ? nil : error.map { WireError($0)?.sentence ?? "an internal error" }
      return DroppedWrite(write: writes[index], reason: reason)
    }
  }
}

extension Operations {
  /// Logs writes that are not made: a line for each reason.
  func logDropped(_ dropped: [DroppedWrite]) {
    let revoked = dropped.filter(\.write.isRevoked)
    log(
      "the sessions of on-disconnect writes have been revoked; they are dropped",
      revoked.map(\.write))
    let others = dropped.filter { !$0.write.isRevoked }
    log(
      "the rules do not allow on-disconnect writes, which are dropped",
      others.filter { $0.reason == nil }.map(\.write))
    for (reason, refused) in Dictionary(grouping: others, by: { $0.reason.map { ByteString($0) } })
    {
      guard let reason else { continue }
      log("on-disconnect writes were refused; they are dropped", refused.map(\.write), reason.text)
    }
  }

  /// Logs writes that are not made, for one reason, or counts the line if there were too many.
  func log(
    _ message: Logger.Message, _ dropped: [ArmedWrite], _ reason: String? = nil
  ) {
    guard !dropped.isEmpty else { return }
    let omitted = droppedWriteLines.withLock { $0.take(now: now()) }
    guard let omitted else { return }
    var metadata: Logger.Metadata = [
      "writes": "\(dropped.count)", "at": "\(dropped.placesForLog)",
    ]
    if let reason { metadata["reason"] = "\(reason.quotedForLog)" }
    if omitted > 0 { metadata["suppressed"] = "\(omitted)" }
    logger.notice(message, metadata: metadata)
  }
}
