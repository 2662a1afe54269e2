import Synchronization

/// Hashes passwords on threads of its own: at most so many at once, so that logins take neither
/// all of the memory nor all of the cores, and at most so many waiting, so that a flood is turned
/// away at once instead of being answered when nobody waits any more.
///
/// First come, first served. A waiting caller that is cancelled leaves the line with
/// `CancellationError`; a hash that has begun is finished. Safe to use from any task or thread;
/// no call blocks its caller's thread.
public final class PasswordHasher: Sendable {
  /// How busy a hasher is at one moment.
  public struct Load: Sendable, Equatable {
    /// Hashes being made.
    public let running: Int
    /// Hashes that wait for one of those to end.
    public let waiting: Int

    /// A load of the given numbers.
    public init(running: Int, waiting: Int) {
      self.running = running
      self.waiting = waiting
    }
  }

  private struct Job: Sendable {
    let identifier: UInt64
    let work: @Sendable () throws -> [UInt8]
    let continuation: CheckedContinuation<[UInt8], any Error>
  }

  private struct State {
    var running = 0
    var waiting: [Job] = []
    var identifierNext: UInt64 = 0
  }

  private let function: any PasswordHashFunction
  private let concurrentMax: Int
  private let waitingMax: Int
  private let state = Mutex(State())

  /// A hasher. No thread exists until there is a password to hash.
  ///
  /// - Parameters:
  ///   - function: makes the tags.
  ///   - concurrentMax: hashes made at once, at least one. Each takes its parameters' memory.
  ///   - waitingMax: callers that may wait for their turn.
  public init(
    function: any PasswordHashFunction = Argon2id(), concurrentMax: Int = 2, waitingMax: Int = 64
  ) {
    self.function = function
    self.concurrentMax = max(1, concurrentMax)
    self.waitingMax = max(0, waitingMax)
  }

  /// How busy the hasher is; true for the moment at which it was read.
  public var load: Load {
    state.withLock { Load(running: $0.running, waiting: $0.waiting.count) }
  }

  /// The hash of a password.
  ///
  /// - Parameters:
  ///   - password: the bytes to hash.
  ///   - salt: random bytes, 8 to 64, used for this hash alone.
  ///   - parameters: what the hash costs.
  /// - Throws: ``AccountError/overloaded`` at once if too many wait already;
  ///   ``AccountError/hashingFailed``; `CancellationError`.
  public func hash(
    _ password: [UInt8], salt: [UInt8], parameters: HashParameters
  ) async throws -> PasswordHash {
    let tag = try await tag(password, salt, parameters, tagBytes: PasswordHash.tagBytes)
    guard let hash = PasswordHash(parameters: parameters, salt: salt, tag: tag) else {
      throw AccountError.hashingFailed
    }
    return hash
  }

  /// Whether `hash` is the hash of the password. Costs what that hash's parameters say, and takes
  /// as long for a wrong password as for the right one. Throws as
  /// ``hash(_:salt:parameters:)`` does.
  public func verify(_ password: [UInt8], against hash: PasswordHash) async throws -> Bool {
    let tag = try await tag(password, hash.salt, hash.parameters, tagBytes: hash.tag.count)
    return ConstantTime.areEqual(tag, hash.tag)
  }

  private func tag(
    _ password: [UInt8], _ salt: [UInt8], _ parameters: HashParameters, tagBytes: Int
  ) async throws -> [UInt8] {
    let function = function
    return try await run {
      try function.tag(
        password: password, salt: salt, parameters: parameters, tagBytes: tagBytes)
    }
  }
}

extension PasswordHasher {
  private func run(_ work: @escaping @Sendable () throws -> [UInt8]) async throws -> [UInt8] {
    let identifier = state.withLock { state in
      state.identifierNext &+= 1
      return state.identifierNext
    }
    return try await withTaskCancellationHandler {
      try await withCheckedThrowingContinuation { continuation in
        submit(Job(identifier: identifier, work: work, continuation: continuation))
        // If the cancellation came before the job was in the line, the handler found nothing.
        if Task.isCancelled { leave(identifier) }
      }
    } onCancel: {
      leave(identifier)
    }
  }

  private enum Place {
    case first
    case inLine
    case none
  }

  private func submit(_ job: Job) {
    let place: Place = state.withLock { state in
      if state.running < concurrentMax {
        state.running += 1
        return .first
      }
      guard state.waiting.count < waitingMax else { return .none }
      state.waiting.append(job)
      return .inLine
    }
    switch place {
    case .first: launch(job)
    case .inLine: break
    case .none: job.continuation.resume(throwing: AccountError.overloaded)
    }
  }

  /// Takes a cancelled job out of the line. Nothing to do if it runs or has ended.
  private func leave(_ identifier: UInt64) {
    let left: Job? = state.withLock { state in
      guard let index = state.waiting.firstIndex(where: { $0.identifier == identifier }) else {
        return nil
      }
      return state.waiting.remove(at: index)
    }
    left?.continuation.resume(throwing: CancellationError())
  }

  /// Starts a thread that works on `job` and then on whoever waits, until nobody does.
  private func launch(_ job: Job) {
    var job: Job? = job
    while let refused = job {
      if WorkerThread.start({ self.work(from: refused) }) { return }
      // Without a thread nobody would come for those in line either: each is tried in its turn.
      job = next()
      refused.continuation.resume(throwing: AccountError.overloaded)
    }
  }

  private func work(from first: Job) {
    var job: Job? = first
    while let current = job {
      let result = Result { try current.work() }
      // The place is given on before the answer, so that whoever has an answer finds it free.
      job = next()
      current.continuation.resume(with: result)
    }
  }

  /// The job whose turn it is, or nil, with one place freed.
  private func next() -> Job? {
    state.withLock { state in
      guard !state.waiting.isEmpty else {
        state.running -= 1
        return nil
      }
      return state.waiting.removeFirst()
    }
  }
}
