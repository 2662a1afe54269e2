import CSimulation
import CanopyTree
import DequeModule

// CanopySimulator runs the engine, the sessions, the line protocol and the client library in one process, on one thread,
// with a virtual clock and a simulated network and disk. It must not change what they do: it replaces the system below
// them.

/// Work that runs in the order in which it was added: an event loop, a dispatch queue, a thread, or one job of a task.
///
/// `@unchecked Sendable`: the simulation has one thread.
final class Lane: @unchecked Sendable {
  let name: String
  let number: Int
  /// The share of its work in that of all lanes that have work.
  let weight: Int
  fileprivate var work: Deque<() -> Void> = []

  fileprivate init(name: String, number: Int, weight: Int) {
    self.name = name
    self.number = number
    self.weight = weight
  }
}

/// Runs all work of the simulation on one thread, in an order that the seed determines.
///
/// Each lane keeps its order. Among the lanes that have work, a random one runs next. The clock advances by a random
/// number of microseconds with each piece of work, and jumps to the next timer when there is none.
///
/// `@unchecked Sendable`: the simulation has one thread.
final class Scheduler: @unchecked Sendable {
  static let shared = Scheduler()

  /// Identifies a timer.
  typealias TimerID = Int

  private struct Timer {
    let time: Int64
    let id: TimerID
  }

  private var random = SplitMix64(seed: 0)
  /// The virtual time in nanoseconds.
  private(set) var now: Int64 = 0
  private var ready: [Lane] = []
  private var weight = 0
  private var lanes = 0
  private var queues: [UnsafeMutableRawPointer: Lane] = [:]
  /// The timers, the next one last.
  private var timers: [Timer] = []
  private var bodies: [TimerID: () -> Void] = [:]
  private var lastTimer = 0
  /// The lane whose work runs.
  private(set) var current: Lane?
  /// The number of pieces of work that have run.
  private(set) var steps = 0
  private(set) var log = SimulationLog()
  /// The number of queued or running pieces of work beyond timers.
  var isIdle: Bool { ready.isEmpty }

  /// Takes over the process. Call it once, before there is any other work.
  func begin(seed: UInt64, keepsLog: Bool) {
    random = SplitMix64(seed: seed)
    log = SimulationLog(isKept: keepsLog)
    // Later than any time that the parts could take for "never".
    now = 1_000_000_000
    simulation_set_time(now)
    simulation_begin(
      SimulationScheduler(
        job: { job in
          let scheduler = Scheduler.shared
          scheduler.add(to: scheduler.lane("task")) { simulation_run_job(job) }
        },
        block: { queue, isConcurrent, block in
          let scheduler = Scheduler.shared
          scheduler.add(to: scheduler.lane(of: queue, isConcurrent: isConcurrent)) {
            simulation_run_block(block)
          }
        },
        thread: { thread in
          let scheduler = Scheduler.shared
          scheduler.add(to: scheduler.lane("thread")) { simulation_run_thread(thread) }
        }), seed)
  }

  /// Returns a random number below `bound`.
  func random(below bound: Int) -> Int { Int.random(in: 0..<max(1, bound), using: &random) }

  /// Returns a random number in a range.
  func random(_ range: ClosedRange<Int64>) -> Int64 { Int64.random(in: range, using: &random) }

  /// Returns a random word.
  func word() -> UInt64 { random.next() }

  // MARK: Lanes

  /// Creates a lane.
  func lane(_ name: String) -> Lane {
    lanes += 1
    // A lane with a small weight is a thread that the system forgets for a while.
    let weights = [1, 4, 4, 16]
    return Lane(name: name, number: lanes, weight: weights[random(below: weights.count)])
  }

  private func lane(of queue: UnsafeMutableRawPointer?, isConcurrent: Bool) -> Lane {
    guard let queue, !isConcurrent else { return lane("block") }
    if let lane = queues[queue] { return lane }
    let lane = lane("queue")
    queues[queue] = lane
    return lane
  }

  /// Adds work to a lane.
  func add(to lane: Lane, _ work: @escaping () -> Void) {
    lane.work.append(work)
    guard lane.work.count == 1 else { return }
    ready.append(lane)
    weight += lane.weight
  }

  // MARK: Timers

  /// Calls a closure after a time.
  @discardableResult
  func after(nanoseconds: Int64, _ body: @escaping () -> Void) -> TimerID {
    lastTimer += 1
    let timer = Timer(time: now + max(0, nanoseconds), id: lastTimer)
    bodies[timer.id] = body
    // The timers are few, so a search and an insertion in an array will do.
    var (low, high) = (0, timers.count)
    while low < high {
      let middle = (low + high) / 2
      if timers[middle].time > timer.time { low = middle + 1 } else { high = middle }
    }
    timers.insert(timer, at: low)
    return timer.id
  }

  /// Calls a closure after a time.
  @discardableResult
  func after(milliseconds: Int64, _ body: @escaping () -> Void) -> TimerID {
    after(nanoseconds: milliseconds * 1_000_000, body)
  }

  /// Forgets a timer.
  func cancel(_ id: TimerID) { bodies[id] = nil }

  // MARK: Running

  /// Runs work until a condition is met, or until a time.
  ///
  /// - Returns: whether the condition is met.
  func run(until isDone: () -> Bool, atMost nanoseconds: Int64) -> Bool {
    let end = now + nanoseconds
    while !isDone() {
      if now >= end { return false }
      while let timer = timers.last, timer.time <= now || ready.isEmpty {
        timers.removeLast()
        guard let body = bodies.removeValue(forKey: timer.id) else { continue }
        advance(to: timer.time)
        body()
        if now >= end { return isDone() }
      }
      guard !ready.isEmpty else {
        if timers.isEmpty { return isDone() }
        continue
      }
      step()
    }
    return true
  }

  private func advance(to time: Int64) {
    now = max(now, time)
    simulation_set_time(now)
  }

  private func step() {
    var left = random(below: weight)
    var index = 0
    while left >= ready[index].weight {
      left -= ready[index].weight
      index += 1
    }
    let lane = ready[index]
    let work = lane.work.removeFirst()
    if lane.work.isEmpty {
      ready.remove(at: index)
      weight -= lane.weight
    }
    steps += 1
    log.noteStep(lane, now)
    current = lane
    work()
    current = nil
    advance(to: now + random(1_000...20_000))
  }

  /// Adds a line to the log.
  func note(_ text: @autoclosure () -> String) { log.note(text(), now) }
}
