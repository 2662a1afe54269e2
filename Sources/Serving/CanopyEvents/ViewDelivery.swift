internal import CanopyEngine
internal import CanopySession
internal import CanopyTree
internal import CanopyWire
internal import DequeModule
internal import NIOCore
internal import Synchronization

/// The delivery of notifications to subscriptions of one view, in steps.
///
/// Between two steps the event loop may do something else. So a view with many subscriptions, or with large events,
/// does not block the loop, and connections that take too much memory end before more is sent.
///
/// It encodes no more events than it delivers at once. So a subscriber that does not read ends before the next
/// events take memory.
///
/// Before it encodes the events of a commit it repeats the authorizations that the engine has not repeated after that
/// commit, each in a step, and those that take many steps of the rules on another thread. It cancels the subscriptions
/// that they deny.
///
/// Subscriptions whose clients read slowly do not get the events. Their connections keep the commits instead: see
/// `WithheldChanges`. That is decided before the first events that are sent together are encoded.
final class ViewDelivery {
  /// A notification, and its commit if it is known.
  typealias Item = (notification: Notification, change: CommittedChange?)

  /// Lines that all subscriptions get before the next ones are encoded.
  private enum Part {
    /// Events of successive commits.
    case lines(Lines)
    /// The events of one commit, which are encoded for each subscription as it reads; with the state, if they are a new
    /// value.
    case large(Notification, bytes: ValueBytes, ShownState?)
    /// The end of the subscriptions.
    case end(WireError.Code)
  }

  /// Encoded events of successive commits, and the bytes that subscriptions share.
  private final class Lines {
    let notifications: [Notification]
    let lines: EventLines
    /// The memory of the values in the events.
    let memory: Int
    /// The last bytes with the label of a subscription. Most subscriptions are the first of their connection: then all
    /// of them share the same bytes.
    private var last: (label: Int64, bytes: ByteBuffer)?
    private lazy var large = lines.largeEvent()

    init(_ notifications: [Notification], _ lines: EventLines, memory: Int) {
      self.notifications = notifications
      self.lines = lines
      self.memory = memory
    }

    func send(to subscriber: any Subscriber, _ label: Int64) {
      if lines.isLarge {
        return subscriber.send(eventHead: large.head(for: label), rest: large.rest)
      }
      if let last, last.label == label { return subscriber.send(events: last.bytes) }
      let bytes = lines.bytes(for: label)
      last = (label, bytes)
      subscriber.send(events: bytes)
    }
  }

  /// The cost of a step.
  struct Step {
    /// The bytes that were copied, and those of shared buffers that were handed over.
    var bytes = 0
    /// Whether the step takes longer than sending events: it encoded some, withheld a commit, or looked at many
    /// subscriptions.
    var isLong = false
    /// Work that takes long, to be carried out on another thread before the next step. If it is not carried out,
    /// the next steps do the work themselves.
    var work: (@Sendable () -> Void)?
  }

  /// The subscriptions of one protocol, and the notifications for them.
  private struct Run {
    let format: EventFormat
    /// A copy, because a subscriber may end subscriptions meanwhile.
    let subscriptions: [HubSubscription]
    var notifications: Deque<Item>
    /// The subscriptions that get the parts and the group.
    var recipients: [HubSubscription]
    /// The other subscriptions: the commits of the group are withheld from them.
    var others: [HubSubscription] = []
    /// The checks that are left before the first notification; nil before they are known.
    var checks: Deque<ListenCheck>?
    /// The result of the first of them; nil unless it is found on another thread.
    var longCheck: LongCheck?
    /// The subscriptions that are asked before the first notification; nil before that begins.
    var asking: Asking?

    init(_ format: EventFormat, _ subscriptions: [HubSubscription], _ notifications: Deque<Item>) {
      self.format = format
      self.subscriptions = subscriptions
      self.notifications = notifications
      recipients = subscriptions
    }
  }

  /// The subscriptions that are asked whether the next commit is to be withheld from them.
  private struct Asking {
    /// The subscriptions that were not asked.
    var left: ArraySlice<HubSubscription>
    /// Whether the events begin a group, so that the subscriptions are all. Otherwise they are those from which the
    /// earlier commits of the group were withheld.
    let isFirst: Bool
  }

  /// The result of a check that takes long. Any thread may set it.
  private final class LongCheck: Sendable {
    let verdict = Mutex<ReadVerdict?>(nil)
  }

  private let view: LocalView
  private let engine: Engine?
  private let checked: CheckedVerdicts
  /// Whether commits may be withheld.
  private let mayWithhold: Bool
  private var run: Run
  /// The runs that have not begun.
  private var laterRuns: [Run] = []
  /// The parts of the run that are encoded.
  private var parts: Deque<Part> = []
  /// The subscription that gets the first part next.
  private var next = 0
  private var group = Group()
  /// Whether a step has returned the work of withholding the next commit.
  private var hasReturnedWithholding = false
  /// Whether a step has looked for long work on the next events.
  private var hasLookedForWork = false
  private let prepared = Prepared()

  /// The results of long work, which the event loop need not do again. Any thread may set them.
  private final class Prepared: Sendable {
    let encoded = Mutex<EventEncoder.Encoded?>(nil)
    let firstWithheld = Mutex<FirstWithheld?>(nil)
  }

  /// The bytes of events that are delivered together.
  private static let groupBytes = 64 * 1024
  /// The subscriptions that a step asks whether their clients are slow.
  private static let askedMax = 64
  /// The subscribers that learn of a check that takes long: each may move all of its subscriptions.
  static let movedMax = 16

  /// Creates a delivery to some subscriptions of a view.
  ///
  /// - Parameters:
  ///   - isMixed: whether they may have different protocols.
  ///   - engine: says which authorizations to check; nil to check none.
  ///   - checked: the verdicts of the hub about the last commit.
  ///   - mayWithhold: whether slow clients do not get the events.
  init(
    _ notifications: Deque<Item>, to subscriptions: [HubSubscription], isMixed: Bool,
    of view: LocalView, in engine: Engine?, checked: CheckedVerdicts = CheckedVerdicts(),
    mayWithhold: Bool = true
  ) {
    self.view = view
    self.engine = engine
    self.checked = checked
    self.mayWithhold = mayWithhold
    run = Run(subscriptions.first?.format ?? .line, subscriptions, notifications)
    guard isMixed else {
      assert(subscriptions.allSatisfy { $0.format == run.format }, "the protocols are mixed")
      return
    }
    laterRuns = Dictionary(grouping: subscriptions, by: \.format).map {
      Run($0.key, $0.value, notifications)
    }
    if let first = laterRuns.popLast() { run = first }
  }

  /// Returns a closure that computes and encodes the next events. Returns nil if that does not take long, or if no
  /// subscription gets the events.
  private func longWork() -> (@Sendable () -> Void)? {
    guard let next = run.notifications.first?.notification,
      run.recipients.contains(where: { !$0.hasEnded }),
      next.takesLong(
        bytesMax: EventHub.comparedBytesMax, childrenMax: EventHub.comparedChildrenMax)
        || view.encoder.takesLong(next)
    else { return nil }
    return { [encoder = view.encoder, format = run.format, prepared] in
      _ = next.events
      let encoded = encoder.prepare(next, in: format)
      prepared.encoded.withLock { $0 = encoded }
    }
  }

  /// Encodes events, withholds a commit from one subscription, or sends a part to one. Returns nil at the end.
  func step() -> Step? {
    guard let part = parts.first else {
      if let step = check() { return step }
      if let step = withhold() { return step }
      if !hasLookedForWork {
        hasLookedForWork = true
        if let work = longWork() { return Step(work: work) }
      }
      if encode() { return Step(isLong: true) }
      guard let later = laterRuns.popLast() else { return nil }
      run = later
      return Step()
    }
    guard run.recipients.indices.contains(next) else {
      parts.removeFirst()
      next = 0
      return Step()
    }
    let subscription = run.recipients[next]
    // A subscriber may lead to the next step.
    next += 1
    return Step(bytes: subscription.hasEnded ? 0 : send(part, to: subscription, in: run.format))
  }

  /// Repeats the next authorization that is to be checked before the next events are encoded. Returns nil if there is
  /// none. Otherwise earlier events may have to be sent before.
  private func check() -> Step? {
    // A notification without its commit was checked when this loop released the commit. Another loop may have released
    // that of the notification alone, and has checked its own subscriptions.
    guard let engine, let change = run.notifications.first?.change,
      engine.mayNeedChecks(at: change.sequence)
    else { return nil }
    if run.checks == nil {
      run.checks = Deque(
        engine.checks(
          of: run.subscriptions.map { $0.hasEnded ? nil : $0.listener }, at: change.sequence))
    }
    guard let check = run.checks?.first else { return nil }
    if addGroup() { return Step(isLong: true) }
    let verdict: ReadVerdict
    if let longCheck = run.longCheck {
      verdict = longCheck.verdict.withLock { $0 } ?? check.verdict(after: change)
      checked.keep(verdict, of: check, after: change)
    } else if let found = checked.verdict(of: check, after: change) {
      verdict = found
    } else {
      return beginLong(check, of: change)
    }
    run.longCheck = nil
    run.checks?.removeFirst()
    if verdict.isAllowed { return Step(isLong: true) }
    for subscription in subscriptions(of: check) {
      subscription.subscriber?.cancel(subscription.number, .permissionDenied)
    }
    return Step(isLong: true)
  }

  /// Returns the work of a check that takes long, whose result the next step uses.
  private func beginLong(_ check: ListenCheck, of change: CommittedChange) -> Step {
    let longCheck = LongCheck()
    run.longCheck = longCheck
    for subscription in subscriptions(of: check).prefix(ViewDelivery.movedMax) {
      subscription.subscriber?.noteLongCheck(of: subscription.number)
    }
    return Step(work: {
      let verdict = check.verdict(after: change)
      longCheck.verdict.withLock { $0 = verdict }
    })
  }

  private func subscriptions(of check: ListenCheck) -> [HubSubscription] {
    check.listeners.filter(run.subscriptions.indices.contains).map { run.subscriptions[$0] }
  }

  /// Withholds the next commit from a subscription whose client reads slowly. Returns nil when all of them have it.
  ///
  /// Events that are sent together have the same recipients. So all subscriptions are asked before the first of them
  /// only.
  private func withhold() -> Step? {
    guard mayWithhold, let change = run.notifications.first?.change else { return nil }
    let asking = run.asking ?? beginAsking()
    for subscription in asking.left.prefix(ViewDelivery.askedMax) {
      var isSlow = !asking.isFirst || subscription.subscriber?.withholdsEvents == true
      if isSlow, !subscription.hasEnded, !subscription.isBehind {
        if let work = withholdingWork(of: change) { return Step(work: work) }
        isSlow = !asking.isFirst || view.firstWithheld(change).changes != nil
      }
      run.asking?.left.removeFirst()
      guard isSlow, !subscription.hasEnded else { continue }
      if asking.isFirst { run.others.append(subscription) }
      // It may lead to the next step.
      subscription.subscriber?.withhold(change, from: subscription)
      return Step(isLong: true)
    }
    if run.asking?.left.isEmpty == false { return Step(isLong: true) }
    if asking.isFirst { removeOthers() }
    return nil
  }

  private func beginAsking() -> Asking {
    var asking = Asking(left: run.others[...], isFirst: group.isEmpty)
    if asking.isFirst {
      run.others = []
      run.recipients = run.subscriptions
      asking.left = run.subscriptions[...]
    }
    run.asking = asking
    return asking
  }

  /// Removes the subscriptions from which the commit is withheld from those that get its events.
  private func removeOthers() {
    if run.others.isEmpty { return }
    let others = Set(run.others.map(ObjectIdentifier.init))
    run.recipients = run.subscriptions.filter { !others.contains(ObjectIdentifier($0)) }
  }

  /// Returns the work of withholding the next commit from a first subscription; nil if that does not take long, or if
  /// the work is done.
  private func withholdingWork(of change: CommittedChange) -> (@Sendable () -> Void)? {
    if let first = prepared.firstWithheld.withLock({ $0.take() }) { view.keep(first) }
    guard !hasReturnedWithholding,
      WithheldChanges.childrenSorted(before: change, for: view.listening)
        > EventHub.comparedChildrenMax
    else { return nil }
    hasReturnedWithholding = true
    return { [listening = view.listening, prepared] in
      let first = FirstWithheld(change, of: listening)
      prepared.firstWithheld.withLock { $0 = first }
    }
  }

  /// Encodes the next events of the run. Returns whether there may be more to do.
  private func encode() -> Bool {
    run.checks = nil
    run.longCheck = nil
    run.asking = nil
    view.forgetWithheld()
    hasReturnedWithholding = false
    hasLookedForWork = false
    let prepared = prepared.encoded.withLock { $0.take() }
    guard let notification = run.notifications.popFirst()?.notification else { return addGroup() }
    // If all subscriptions have ended, no events are computed.
    guard run.subscriptions.contains(where: { !$0.hasEnded }) else {
      run.notifications.removeAll()
      group = Group()
      return false
    }
    guard run.recipients.contains(where: { !$0.hasEnded }) else { return true }
    switch view.encoded(notification, in: run.format, prepared) {
    case .lines(let lines, let memory):
      group.append(lines, of: notification, memory: memory)
      if group.bytes >= ViewDelivery.groupBytes { addGroup() }
    case .large(let bytes, let state):
      addGroup()
      parts.append(.large(notification, bytes: bytes, state))
    case .failed(let error):
      addGroup()
      parts.append(.end(error.code))
    }
    return true
  }

  /// Returns whether there was anything to add.
  @discardableResult
  private func addGroup() -> Bool {
    defer { group = Group() }
    guard let first = group.lines.first else { return false }
    let lines = group.lines.count == 1 ? first : EventLines(joining: group.lines)
    parts.append(.lines(Lines(group.notifications, lines, memory: group.memory)))
    return true
  }

  /// Returns the bytes that were sent.
  private func send(
    _ part: Part, to subscription: HubSubscription, in format: EventFormat
  ) -> Int {
    guard let subscriber = subscription.subscriber else { return 0 }
    let (number, label) = (subscription.number, subscription.label)
    switch part {
    case .lines(let part):
      let count = part.lines.byteCount(for: label)
      let bytes = ValueBytes(json: count, memory: part.memory)
      guard subscriber.accepts(part.notifications, bytes: bytes, for: number) else { return 0 }
      part.send(to: subscriber, label)
      return count
    case .large(let notification, let bytes, let state):
      guard subscriber.accepts([notification], bytes: bytes, for: number) else { return 0 }
      subscriber.send(
        events: LinePieces(
          notification.events, state, notification.sequence, of: view.listening, in: format,
          for: label, bytes: bytes))
      return 0
    case .end(let code):
      subscriber.cancel(number, code)
      return 0
    }
  }
}

/// The events of successive commits that are delivered together.
private struct Group {
  private(set) var notifications: [Notification] = []
  private(set) var lines: [EventLines] = []
  private(set) var bytes = 0
  /// The memory of the values in the events.
  private(set) var memory = 0

  var isEmpty: Bool { lines.isEmpty }

  mutating func append(_ lines: EventLines, of notification: Notification, memory: Int) {
    guard lines.count > 0 else { return }
    self.memory += memory
    notifications.append(notification)
    self.lines.append(lines)
    bytes += lines.byteCount(for: 1)
  }
}
