internal import CanopyEngine
internal import CanopyTree
internal import CanopyWire
internal import Logging
internal import NIOCore

/// What a connection wants to listen to.
struct Wish {
  /// What: a place in the tree, or a value that never changes.
  enum Subject {
    case tree(Listening)
    case constant(Node, EventForm)
  }

  var subject: Subject
  /// The last commit of which the client was told everything.
  var since: Int64?
  /// Commits since then beyond which everything is told anew rather than what changed.
  var historyMax = Int64.max
  /// Whether the rules judge it.
  var isJudged: Bool
}

/// The subscriptions of one connection. Touched on its event loop alone.
final class Subscriptions {
  private let service: LineService
  let hub: EventHub
  private unowned let subscriber: any Subscriber
  private var byNumber: [Int64: Subscription] = [:]
  private var lastNumber: Int64 = 0
  private var hasEnded = false
  /// When the session ends that judged subscriptions rest on.
  private var expiry: Scheduled<Void>?

  init(_ service: LineService, _ hub: EventHub, for subscriber: any Subscriber) {
    self.service = service
    self.hub = hub
    self.subscriber = subscriber
  }

  /// Begins a subscription. What `answer` gets is the reply, and with it all that the client is to
  /// know at the beginning; events come after it.
  func begin(_ wish: Wish, as identity: Identity, answer: @escaping ([UInt8]) -> Void) {
    guard byNumber.count < service.limits.listenersMax else {
      return answer(
        Response(
          WireError(
            .tooLarge,
            "a connection may have at most \(service.limits.listenersMax) subscriptions; end some "
              + "with UNLISTEN first")
        ).line)
    }
    lastNumber += 1
    var judged: Listening?
    if wish.isJudged, case .tree(let listening) = wish.subject { judged = listening }
    let subscription = Subscription(number: lastNumber, judged: judged, subscriber: subscriber)
    byNumber[lastNumber] = subscription
    switch wish.subject {
    case .constant(let node, let form):
      let sequence = service.engine.snapshot.sequence
      answer(reply(subscription, sequence, EventLines(constant: node, sequence, form: form)))
    case .tree(let listening):
      let judge = judged.flatMap { service.listenJudge($0, as: identity) }
      if judge != nil { expect(identity) }
      hub.begin(subscription, listening, judge) { [self] result in
        let start: ListenStart
        switch result {
        case .success(let success): start = success
        case .failure(let error): return answer(refuse(subscription, service.wireError(error)))
        }
        guard let since = wish.since, !hasEnded else {
          return answer(
            reply(subscription, start.sequence) { () throws(WireError) in
              try EventLines(start: start, of: listening, isAgain: false, bytesMax: bytesMax)
            })
        }
        var historyMax = wish.historyMax
        // What was removed since is told with its last data: not to those who perhaps might not read
        // it while it was there.
        if judge != nil, start.isConditional || since < service.rules.current.sequence {
          historyMax = -1
        }
        resume(subscription, listening, since, historyMax, start, answer)
      }
    }
  }

  private var bytesMax: Int { service.limits.replyBytesMax }

  /// Finds out what the client missed, off the loop; what happens meanwhile waits.
  private func resume(
    _ subscription: Subscription, _ listening: Listening, _ since: Int64, _ historyMax: Int64,
    _ start: ListenStart, _ answer: @escaping ([UInt8]) -> Void
  ) {
    subscription.hold(bytesMax: service.limits.queuedBytesMax)
    let bound = NIOLoopBound((self, subscription, answer), eventLoop: hub.loop)
    let isNear = start.sequence - since <= historyMax
    let connection = ObjectIdentifier(self)
    subscription.resumption = Task { [service, hub, bytesMax] in
      var missed: Result<[ListenEvent]?, any Error> = .success(nil)
      do {
        // Else every change of a value that is too large to be told would have it measured anew.
        if listening.form == .value {
          try EventLines.checkSize(of: start, listening, bytesMax: bytesMax)
        }
        if isNear {
          missed = .success(
            try await service.engine.changes(since: since, to: start, for: connection))
        }
      } catch {
        missed = .failure(error)
      }
      hub.loop.execute { [missed] in
        let (subscriptions, subscription, answer) = bound.value
        subscriptions.finish(subscription, listening, missed, start, answer)
        subscription.release()
      }
    }
  }

  private func finish(
    _ subscription: Subscription, _ listening: Listening,
    _ missed: Result<[ListenEvent]?, any Error>, _ start: ListenStart,
    _ answer: ([UInt8]) -> Void
  ) {
    subscription.resumption = nil
    switch missed {
    case .failure(is CancellationError):
      // The connection has gone; nobody reads the reply.
      answer(refuse(subscription, WireError(.unavailable, "the connection has ended")))
    case _ where subscription.isDenied:
      answer(refuse(subscription, .denied))
    case .success where subscription.hasLost:
      let sentence = "more has happened than can be kept while the journal is read; listen again"
      answer(refuse(subscription, WireError(.overloaded, sentence)))
    case .failure(let error as WireError):
      answer(refuse(subscription, error))
    case .failure(let error):
      service.logger.error("the journal cannot be read", metadata: ["error": "\(error)"])
      let sentence = "what has changed cannot be read now; listen without since, or try later"
      answer(refuse(subscription, WireError(.unavailable, sentence)))
    case .success(let events):
      answer(
        reply(subscription, start.sequence) { () throws(WireError) in
          guard let events else {
            return try EventLines(start: start, of: listening, isAgain: true, bytesMax: bytesMax)
          }
          return try EventLines(events, start.sequence, of: listening, bytesMax: bytesMax)
        })
    }
  }

  private func refuse(_ subscription: Subscription, _ error: WireError) -> [UInt8] {
    remove(subscription)
    return Response(error).line
  }

  private func reply(
    _ subscription: Subscription, _ sequence: Int64, _ lines: () throws(WireError) -> EventLines
  ) -> [UInt8] {
    do throws(WireError) {
      return reply(subscription, sequence, try lines())
    } catch {
      return refuse(subscription, error)
    }
  }

  private func reply(
    _ subscription: Subscription, _ sequence: Int64, _ lines: EventLines
  ) -> [UInt8] {
    var output = JSONOutput(capacity: 256)
    Reply.success(to: &output) { output in
      output.append("{\"sub\":")
      output.append(subscription.number)
      output.append(",\"seq\":")
      output.append(sequence)
      output.append(",\"initial\":")
      output.append(Int64(lines.count))
      output.append("}")
    }
    lines.append(to: &output, for: subscription.number)
    return output.bytes
  }

  /// Ends a subscription.
  ///
  /// - Throws: `WireError` when there is none of this number.
  func end(_ number: Int64) throws(WireError) {
    guard let subscription = byNumber[number] else {
      throw WireError(.notFound, "this connection has no subscription \(number)")
    }
    remove(subscription)
  }

  func remove(_ subscription: Subscription) {
    byNumber[subscription.number] = nil
    hub.end(subscription)
  }

  /// Ends all; those that are just beginning as well.
  func endAll() {
    hasEnded = true
    for subscription in byNumber.values { hub.end(subscription) }
    byNumber = [:]
    expiry?.cancel()
  }

  /// Those that the rules judge, in the order of their numbers.
  private var judged: [Subscription] {
    byNumber.values.filter { $0.judged != nil }.sorted { $0.number < $1.number }
  }

  /// Whether the rules judge any.
  var areJudged: Bool { !hasEnded && byNumber.values.contains { $0.judged != nil } }

  /// Has all judged as somebody else's. `done` is called on the loop when those have been cancelled
  /// that may no longer be; until then the connection is who it was.
  func judge(as identity: Identity, done: @escaping () -> Void) {
    expiry?.cancel()
    expect(identity)
    let changes = judged.map { subscription in
      (subscription, subscription.judged.flatMap { service.listenJudge($0, as: identity) })
    }
    hub.judge(changes, done: done)
  }

  /// Has those that are judged as a session's judged anew when it expires.
  private func expect(_ identity: Identity) {
    guard case .user(let session) = identity else { return }
    expiry?.cancel()
    let milliseconds = max(1, min(session.expiresAt - service.now(), Subscriptions.expiryMax))
    expiry = hub.loop.assumeIsolated().scheduleTask(in: .milliseconds(milliseconds)) { [self] in
      if session.isValid(at: service.now()) { return expect(identity) }
      service.judgeAnew([session])
    }
  }

  /// A day: clocks may be set.
  private static let expiryMax: Int64 = 24 * 60 * 60 * 1000
}
