internal import CanopySystem
import Synchronization

/// A hasher of passwords on threads of its own.
///
/// The number of simultaneous hashes is bounded, so that logins use neither all memory nor all cores. The number of
/// waiting hashes is bounded too, so that a flood is refused at once.
///
/// Remote networks are served in turn (see ``FairQueue``). A network with a hundred waiting hashes delays another network
/// by one hash, and cannot displace it from the queue. If many networks have filled the queue, a hash of an account that
/// has logged in from its network lately replaces one of the wide network with the most waiting hashes (see
/// ``RemoteNetwork/wide``). Hashes of one network begin in the order of the calls. A caller
/// that is cancelled while waiting gets `CancellationError`; a running hash is completed. Safe to use from any task or
/// thread. No call blocks the caller's thread.
public final class PasswordHasher: Sendable {
  /// The load of a hasher at one moment.
  public struct Load: Sendable, Equatable {
    /// The number of running hashes.
    public let running: Int
    /// The number of waiting hashes.
    public let waiting: Int

    /// Creates a load from its numbers.
    public init(running: Int, waiting: Int) {
      self.running = running
      self.waiting = waiting
    }
  }

  private struct Job: Sendable {
    let identifier: UInt64
    let network: RemoteNetwork
    /// Whether the account has logged in from the network lately.
    let isKnown: Bool
    let work: @Sendable () throws -> [UInt8]
    let continuation: CheckedContinuation<[UInt8], any Error>
  }

  private struct State {
    var running = 0
    var waiting: FairQueue<RemoteNetwork, Job>
    var identifierNext: UInt64 = 0
  }

  private let function: any PasswordHashFunction
  private let concurrentMax: Int
  private let state: Mutex<State>

  /// Creates a hasher. It has no threads until there is a password to hash.
  ///
  /// - Parameters:
  ///   - function: computes the tags.
  ///   - concurrentMax: the maximum number of simultaneous hashes, at least one. Each needs the memory of its parameters.
  ///   - waitingMax: the maximum number of waiting callers, at least zero.
  ///   - waitingPerNetworkMax: the maximum number of waiting callers of one remote network, at least one.
  public init(
    function: any PasswordHashFunction = Argon2id(), concurrentMax: Int = 2, waitingMax: Int = 64,
    waitingPerNetworkMax: Int = 32
  ) {
    self.function = function
    self.concurrentMax = max(1, concurrentMax)
    state = Mutex(
      State(waiting: FairQueue(countMax: waitingMax, perKeyMax: waitingPerNetworkMax)))
  }

  /// The current load.
  public var load: Load {
    state.withLock { Load(running: $0.running, waiting: $0.waiting.count) }
  }

  /// Returns the hash of a password.
  ///
  /// - Parameters:
  ///   - password: the bytes to hash.
  ///   - salt: random bytes, 8 to 64, which no other hash has.
  ///   - parameters: the cost of the hash.
  ///   - network: the network of the caller.
  /// - Throws: ``AccountError/overloaded`` if too many callers wait, or later if a network with fewer callers takes the
  ///   place; ``AccountError/hashingFailed``; `CancellationError`.
  public func hash(
    _ password: [UInt8], salt: [UInt8], parameters: HashParameters,
    for network: RemoteNetwork = .local
  ) async throws -> PasswordHash {
    let tag = try await tag(
      password, salt, parameters, tagBytes: PasswordHash.tagBytes, for: network)
    guard let hash = PasswordHash(parameters: parameters, salt: salt, tag: tag) else {
      throw AccountError.hashingFailed
    }
    return hash
  }

  /// Whether `hash` is the hash of the password. The cost is that of the hash's parameters, and the same for a wrong
  /// password. Throws the errors of ``hash(_:salt:parameters:for:)``.
  ///
  /// - Parameter isKnown: whether the account has logged in from the network lately.
  public func verify(
    _ password: [UInt8], against hash: PasswordHash, for network: RemoteNetwork = .local,
    isKnown: Bool = false
  ) async throws -> Bool {
    let tag = try await tag(
      password, hash.salt, hash.parameters, tagBytes: hash.tag.count, for: network,
      isKnown: isKnown)
    return ConstantTime.areEqual(tag, hash.tag)
  }

  private func tag(
    _ password: [UInt8], _ salt: [UInt8], _ parameters: HashParameters, tagBytes: Int,
    for network: RemoteNetwork, isKnown: Bool = false
  ) async throws -> [UInt8] {
    let function = function
    return try await run(for: network, isKnown: isKnown) {
      try function.tag(
        password: password, salt: salt, parameters: parameters, tagBytes: tagBytes)
    }
  }
}

extension PasswordHasher {
  private func run(
    for network: RemoteNetwork, isKnown: Bool, _ work: @escaping @Sendable () throws -> [UInt8]
  ) async throws -> [UInt8] {
    let identifier = state.withLock { state in
      state.identifierNext &+= 1
      return state.identifierNext
    }
    return try await withTaskCancellationHandler {
      try await withCheckedThrowingContinuation { continuation in
        submit(
          Job(
            identifier: identifier, network: network, isKnown: isKnown, work: work,
            continuation: continuation))
        // If the cancellation came before the job was in the queue, the handler did not find it.
        if Task.isCancelled { leave(identifier, network) }
      }
    } onCancel: {
      leave(identifier, network)
    }
  }

  private enum Submission {
    case starts
    case waits
    case refuses(Job)
  }

  private func submit(_ job: Job) {
    let submission: Submission = state.withLock { state in
      if state.running < concurrentMax {
        state.running += 1
        return .starts
      }
      let addition =
        job.isKnown
        ? state.waiting.addKnown(job, for: job.network, groupedBy: \.wide)
        : state.waiting.add(job, for: job.network)
      return switch addition {
      case .added: .waits
      case .replaced(let other): .refuses(other)
      case .refused: .refuses(job)
      }
    }
    switch submission {
    case .starts: launch(job)
    case .waits: break
    case .refuses(let refused): refused.continuation.resume(throwing: AccountError.overloaded)
    }
  }

  /// Removes a cancelled job from the queue. Does nothing if the job is running or has ended.
  private func leave(_ identifier: UInt64, _ network: RemoteNetwork) {
    let left = state.withLock { state in
      state.waiting.remove(of: network) { $0.identifier == identifier }
    }
    left?.continuation.resume(throwing: CancellationError())
  }

  /// Starts a thread that runs `job` and then the waiting jobs, until none waits.
  private func launch(_ job: Job) {
    var job: Job? = job
    while let refused = job {
      if WorkerThread.start({ self.work(from: refused) }) { return }
      // Without this thread, no thread would serve the queue, so each waiting job is tried in turn.
      job = next()
      refused.continuation.resume(throwing: AccountError.overloaded)
    }
  }

  private func work(from first: Job) {
    var job: Job? = first
    while let current = job {
      let result = Result { try current.work() }
      // Frees the slot before resuming, so that a caller with a result finds the slot free.
      job = next()
      current.continuation.resume(with: result)
    }
  }

  /// Removes and returns the next job. If none waits, frees the slot and returns nil.
  private func next() -> Job? {
    state.withLock { state in
      if let job = state.waiting.next() { return job }
      state.running -= 1
      return nil
    }
  }
}
