internal import CanopyTree

/// An error for which the engine did not carry out a write.
public enum EngineError: Error, Equatable, Sendable {
  /// The journal could not store it. No part of it is visible; the client may try again.
  case journalFailed
  /// The journal failed and could not be read for some time. The write may have been stored or not.
  case outcomeUnknown
  /// The text that the journal would store does not read back as the same write. The write was not made.
  case unstorable
  /// The commit would have too many locations or bytes, with everything that follows from the write. The write was not
  /// made.
  case commitTooLarge
  /// The write would make the tree larger than its bound. The write was not made.
  case treeFull
  /// The engine is stopping, or has stopped.
  case stopped
  /// Too many writes are waiting for the journal.
  case overloaded
  /// The client has too many writes whose answers it has not reported as seen.
  case tooManyUnseen
  /// The client has reported the answer to its write of this number, or to a later one, as seen. This is
  /// a late copy of the write, which is not made.
  case alreadyAnswered(Int64)
  /// The clock of the machine is later than the year 10889, the last that keys can contain. The write was not made.
  case wrongTime
  /// Another node has taken over this on-disconnect write, because this node had not renewed its lease.
  case takenOver
  /// The node did not adopt the commit that the caller asked for within the time that the caller may wait.
  case behind
  /// The rules do not allow the write, or the listener may not listen.
  case denied

  /// One sentence that says what to do.
  public var sentence: String {
    switch self {
    case .journalFailed:
      "the write could not be stored and was not made; reads go on, try again later"
    case .outcomeUnknown:
      "the write may have been made or not: it could not be stored for certain, and the journal cannot "
        + "be read; look at the data before you try again"
    case .unstorable:
      "the write was refused because it could not be read back once stored; it was not made: report "
        + "this with the request, which is a fault of the server"
    case .commitTooLarge:
      "one write may change at most \(Limits.commitLocationsMax) locations and add "
        + "\(Limits.commitBytesMax) bytes to the journal, derived data included, and at most "
        + "\(Limits.commitPrioritiesMax) priorities besides one for each location; split it into several writes"
    case .treeFull:
      "the data of this server has reached its limit, so the write was not made; reads and removals still work: "
        + "try again later, or tell the administrator"
    case .stopped: "the server is shutting down; connect again in a moment"
    case .tooManyUnseen:
      "a client may have at most \(Limits.clientWritesMax) writes whose answers it has not reported as "
        + "seen; send the number seen"
    case .alreadyAnswered(let number):
      "write \(number) of this client was already answered, so it is not made again; give every write "
        + "a number above all that you have reported as seen"
    case .overloaded: "too many writes are waiting to be stored; try again in a moment"
    case .wrongTime:
      "the clock of the server is wrong, so the write was not made: ask its administrator to set it"
    case .takenOver: "another node makes this on-disconnect write, or has made it"
    case .behind:
      "this node does not have that commit yet; try again in a moment, or ask the node that made it"
    case .denied: "this is not allowed"
    }
  }
}
