#if PostgreSQL
  internal import CanopySystem
  internal import Logging
  internal import Synchronization
  #if canImport(Glibc)
    internal import Glibc
  #elseif canImport(Musl)
    internal import Musl
  #endif

  /// Receives the messages of other nodes about their commits, and renews the lease of this node, on a connection and a thread
  /// of its own.
  ///
  /// A message only ends a wait: the commits are read by their numbers. So a lost message costs at most the time for which
  /// the reader waits. A connection that was made again ends all waits, because messages may have been lost.
  final class Bell: Sendable {
    /// The name of the channel, which all namespaces share.
    static let channel = "canopy"

    private struct Waiter {
      let sequence: Int64
      let deadline: Double
      let continuation: CheckedContinuation<Void, Never>
    }

    private struct State {
      var waiters: [Int: Waiter] = [:]
      var lastWaiter = 0
      /// The number in the last message. It is nil before the first message, and when a wait has seen the last one.
      var heard: Int64?
      var isStopped = false
      var isReplaced = false
      /// Whether a renewal found that the lease had run out, and `takeLate` was not called since.
      var isLate = false

      /// Removes the waiters that satisfy a condition.
      mutating func remove(where isOver: (Waiter) -> Bool) -> [CheckedContinuation<Void, Never>] {
        let over = waiters.filter { isOver($0.value) }
        for id in over.keys { waiters[id] = nil }
        return over.values.map(\.continuation)
      }
    }

    private static let firstPause = 0.1
    private static let pauseMax = 2.0

    let registration: Registration
    private let settings: Link.Settings
    private let logger: Logger
    private let state = Mutex(State())
    private let signal: WakeUp
    private let beginning: String

    init(_ settings: Link.Settings, _ registration: Registration, logger: Logger) {
      self.settings = settings
      self.registration = registration
      self.logger = logger
      signal = WakeUp()
      beginning = Bell.hexadecimal(registration.namespace) + " "
    }

    /// Returns the text of a message: the namespace, the number of a commit and the run of the node that made it.
    static func message(_ namespace: [UInt8], _ sequence: Int64, from run: Int64) -> String {
      "\(hexadecimal(namespace)) \(sequence) \(run)"
    }

    private static func hexadecimal(_ bytes: [UInt8]) -> String {
      let digits = Array("0123456789abcdef".utf8)
      return String(
        decoding: bytes.flatMap { [digits[Int($0 >> 4)], digits[Int($0 & 15)]] }, as: UTF8.self)
    }

    /// Starts the thread, which ends with `stop`.
    func start() throws(PostgresError) {
      guard WorkerThread.start({ [self] in work() }) else {
        throw .unsuitable(
          "the system gives no more threads: raise the limit of processes (ulimit -u)")
      }
    }

    /// Ends the thread and all waits.
    func stop() {
      let waiting = state.withLock { state in
        state.isStopped = true
        return state.remove { _ in true }
      }
      for continuation in waiting { continuation.resume() }
      signal.send()
    }

    /// Whether another process has registered under the name of the node.
    var isReplaced: Bool { state.withLock { $0.isReplaced } }

    /// Waits for a message about a commit after `sequence`, for a new connection, or until the time is up.
    func wait(for sequence: Int64, atMost duration: Duration) async {
      let seconds =
        Double(duration.components.seconds)
        + Double(duration.components.attoseconds) * 1e-18
      let deadline = settings.uptime() + max(0, min(seconds, 1e9))
      let id = state.withLock { state in
        state.lastWaiter += 1
        return state.lastWaiter
      }
      await withTaskCancellationHandler {
        await withCheckedContinuation { continuation in
          let isOver = state.withLock { state in
            if state.isStopped || Task.isCancelled { return true }
            if let heard = state.heard.take(), heard > sequence { return true }
            state.waiters[id] = Waiter(
              sequence: sequence, deadline: deadline, continuation: continuation)
            return false
          }
          if isOver { continuation.resume() } else { signal.send() }
        }
      } onCancel: {
        state.withLock { $0.waiters.removeValue(forKey: id) }?.continuation.resume()
      }
    }

    private func work() {
      var link: Link?
      var pause = Bell.firstPause
      var renewal = 0.0
      while !state.withLock({ $0.isStopped }) {
        do {
          let current = try link ?? connect()
          if link == nil {
            link = current
            pause = Bell.firstPause
            end { _ in true }
          }
          if settings.uptime() >= renewal {
            note(try registration.renew(current))
            renewal = settings.uptime() + registration.leaseSeconds / 3
          }
          signal.wait(for: timeLeft(until: renewal), or: current.socket)
          for text in try current.notifications() { hear(text) }
        } catch {
          link = nil
          logger.warning(
            "the connection for messages of other nodes was lost; it is made again",
            metadata: ["error": "\(error)"])
          signal.wait(for: min(pause, timeLeft(until: .infinity)), or: nil)
          pause = min(pause * 2, Bell.pauseMax)
        }
        let now = settings.uptime()
        end { $0.deadline <= now }
      }
    }

    private func connect() throws(PostgresError) -> Link {
      let link = try Link(settings)
      _ = try link.run([Query("LISTEN \(Bell.channel)", isPrepared: false)])
      return link
    }

    /// Whether a renewal has found that the lease had run out, since the last call.
    func takeLate() -> Bool {
      state.withLock { state in
        defer { state.isLate = false }
        return state.isLate
      }
    }

    private func note(_ renewal: Registration.Renewal) {
      switch renewal {
      case .renewed: break
      case .late: state.withLock { $0.isLate = true }
      case .replaced: noteReplaced()
      }
    }

    private func noteReplaced() {
      let isNew = state.withLock { state in
        defer { state.isReplaced = true }
        return !state.isReplaced && !state.isStopped
      }
      guard isNew else { return }
      logger.error("another process has registered under the name of this node; stop one of them")
    }

    private func timeLeft(until renewal: Double) -> Double {
      let first = state.withLock { state in state.waiters.values.map(\.deadline).min() }
      return max(0, min(renewal, first ?? .infinity) - settings.uptime())
    }

    private func hear(_ text: String) {
      guard text.utf8.starts(with: beginning.utf8) else { return }
      let numbers = text.utf8.dropFirst(beginning.utf8.count).split(separator: UInt8(ascii: " "))
      guard numbers.count == 2, let sequence = Int64(String(decoding: numbers[0], as: UTF8.self)),
        Int64(String(decoding: numbers[1], as: UTF8.self)) != registration.run
      else { return }
      let waiting = state.withLock { state in
        let waiting = state.remove { $0.sequence < sequence }
        if waiting.isEmpty { state.heard = max(state.heard ?? sequence, sequence) }
        return waiting
      }
      for continuation in waiting { continuation.resume() }
    }

    private func end(_ isOver: (Waiter) -> Bool) {
      for continuation in state.withLock({ $0.remove(where: isOver) }) { continuation.resume() }
    }
  }

  /// Ends the wait of a thread in `poll`, through a pipe.
  private final class WakeUp: Sendable {
    private let reading: Int32
    private let writing: Int32

    init() {
      var ends: [Int32] = [-1, -1]
      _ = pipe(&ends)
      for end in ends {
        _ = fcntl(end, F_SETFL, O_NONBLOCK)
        _ = fcntl(end, F_SETFD, FD_CLOEXEC)
      }
      (reading, writing) = (ends[0], ends[1])
    }

    deinit {
      close(reading)
      close(writing)
    }

    func send() {
      var byte: UInt8 = 1
      // A full pipe ends the wait as well.
      _ = write(writing, &byte, 1)
    }

    /// Waits for some seconds, for `send`, or until a socket has input.
    func wait(for seconds: Double, or socket: Int32?) {
      var descriptors = [pollfd(fd: reading, events: Int16(POLLIN), revents: 0)]
      if let socket { descriptors.append(pollfd(fd: socket, events: Int16(POLLIN), revents: 0)) }
      _ = poll(
        &descriptors, nfds_t(descriptors.count), Int32(min(seconds * 1_000, 1e6).rounded(.up)))
      var bytes = [UInt8](repeating: 0, count: 256)
      while read(reading, &bytes, bytes.count) == bytes.count {}
    }
  }
#endif
