public import CanopyWire

/// Replies and the events around them: a reply follows the events of all earlier commits, and a read that has waited for
/// them is answered before any later event.
extension Session {
  /// The next reply to be sent. Two cases are for a read that has waited for events. Such a read runs alone.
  enum NextReply {
    /// Any other reply.
    case any
    /// The reply reads the same tree version as the last event sent.
    case current
    /// The read is to be carried out when its reply can be sent.
    case delayed(ReadRequest)
  }

  /// Whether a read is to be carried out when its reply can be sent. Until then no request begins: a write would be in the
  /// queue before the read if the read has to wait once more.
  var isReadDelayed: Bool { if case .delayed = nextReply { true } else { false } }

  /// Returns whether a read that has waited for events may be answered now, in the version up to which they are sent.
  /// Otherwise further events will precede the reply, and it must not be older: it is carried out again when its turn
  /// comes, and its slot is to be finished with any reply.
  ///
  /// Precondition: the read is under way.
  public mutating func answersNow(_ request: ReadRequest) -> Bool {
    if canSend || withholding.isResuming { return true }
    nextReply = .delayed(request)
    return false
  }

  /// Notes that the reply with which the read under way is finished next has the version up to which the events are sent.
  /// Further events would be newer than the reply.
  public mutating func markReplyAsCurrent() {
    nextReply = .current
    if withholding.isResuming { withholding.sendsNextReply = true }
  }

  /// Returns the action for the reply whose turn has come.
  mutating func send(_ reply: Reply) -> Action {
    switch nextReply {
    case .any: return followsEvents(reply) ? .sendAfterEvents(reply) : .send(reply)
    case .current:
      nextReply = .any
      return .send(reply)
    case .delayed(let request):
      nextReply = .any
      return .readAgain(request)
    }
  }

  /// Whether the events that the front end has now come before a reply. While commits are withheld, the reply is one that
  /// follows none of them.
  private func followsEvents(_ reply: Reply) -> Bool {
    guard !subscriptions.isEmpty, !isBehind else { return false }
    // The events of a subscription follow the reply that begins it.
    if case .subscribed = reply { return false }
    return true
  }
}
