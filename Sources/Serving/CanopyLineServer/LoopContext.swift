internal import CanopyEngine
internal import CanopyEvents
internal import CanopySession
internal import CanopyTree
internal import CanopyWire
internal import NIOCore

/// The state that the connections of one event loop share. Use it on that loop only.
final class LoopContext {
  let loop: any EventLoop
  /// Everything that other threads hand to the loop.
  let inbox: LoopInbox
  /// The subscriptions of all connections.
  let hub: EventHub
  /// The encoded lists since the last commit.
  let lists = ListCache()
  /// Encodes replies.
  private let codec: LineCodec
  let operations: Operations
  /// The connections that are to be flushed.
  let unflushed: FlushQueue
  /// The connections that wait for a turn.
  let turns: LoopTurns
  /// The time that requests may take.
  let work: WorkBudget

  /// - Parameters:
  ///   - turns: the queue for turns; nil for one that looks for input between them.
  ///   - now: the clock by which turns end.
  init(
    _ operations: Operations, loop: any EventLoop, turns: LoopTurns? = nil,
    now: @escaping () -> NIODeadline = { .now() }
  ) {
    self.loop = loop
    self.operations = operations
    let inbox = LoopInbox(operations.engine, loop: loop)
    self.inbox = inbox
    unflushed = FlushQueue(loop: loop) { inbox.release() }
    self.turns = turns ?? LoopTurns(loop: loop)
    work = WorkBudget(loop: loop, now: now)
    let limits = operations.limits
    hub = EventHub(inbox, engine: operations.engine, limits: limits)
    codec = LineCodec(
      replyBytesMax: limits.replyBytesMax, wholeBytesMax: limits.wholeReplyBytesMax,
      cache: EntryCache())
    inbox.onWakeUp { [unowned self] in takeInbox() }
  }

  /// Handles the outcomes in the inbox, and then its events.
  ///
  /// A connection with subscriptions gets the events before an outcome first: see `LineHandler.send`.
  private func takeInbox() {
    let outcomes = inbox.takeOutcomes()
    for outcome in outcomes { outcome.connection.value.0.finish(outcome.slot, outcome.completion) }
    for outcome in outcomes {
      let (connection, context) = outcome.connection.value
      connection.advanceAfterOutcomes(context)
    }
    hub.drainSoon()
    inbox.release()
  }

  /// Carries out a read that does not take long, and appends the line of its reply. All requests for the same list
  /// share one buffer.
  ///
  /// - Returns: whether it was carried out.
  func read(
    _ request: ReadRequest, as identity: Identity, to output: inout LineOutput
  ) -> Bool {
    guard let list = SharedList(request) else {
      guard let reply = operations.read(request, as: identity, in: inbox.snapshot.root) else {
        return false
      }
      encode(reply, to: &output)
      return true
    }
    let snapshot = inbox.snapshot
    if let line = lists.find(list, at: snapshot.sequence) {
      output.append(shared: line)
      return true
    }
    guard let reply = operations.read(request, as: identity, in: snapshot.root) else {
      return false
    }
    let start = output.text.count
    encode(reply, to: &output)
    // A list with a part that is not encoded yet cannot be shared.
    if !output.hasPieces { output.text.withBytes { lists.keep($0[start...], of: list) } }
    return true
  }

  /// Appends the line of a reply. If the reply is too large, appends the line of an error instead.
  ///
  /// - Returns: whether the reply was appended.
  @discardableResult
  func encode(_ reply: Reply, to output: inout LineOutput) -> Bool {
    do throws(WireError) {
      if let rest = try codec.encode(reply, to: &output.text) { output.append(rest) }
      return true
    } catch {
      ReplyLine.failure(error, to: &output.text)
      return false
    }
  }
}

/// The connections of one event loop that have something to send. Use it on that loop only.
final class FlushQueue {
  private let loop: any EventLoop
  private let afterFlushing: () -> Void
  private var connections: [any Flushable] = []

  /// - Parameter afterFlushing: called when all connections that were due are flushed.
  init(loop: any EventLoop, afterFlushing: @escaping () -> Void) {
    self.loop = loop
    self.afterFlushing = afterFlushing
  }

  /// Flushes a connection when the tasks that wait on the loop now are done, so that the replies and events
  /// of several commits go out together.
  func append(_ connection: any Flushable) {
    loop.assertInEventLoop()
    connections.append(connection)
    guard connections.count == 1 else { return }
    loop.assumeIsolated().execute { [self] in
      var due: [any Flushable] = []
      swap(&due, &connections)
      for connection in due { connection.flush() }
      afterFlushing()
    }
  }
}

/// A connection that has something to send.
protocol Flushable: AnyObject {
  /// Sends it.
  func flush()
}
