internal import CanopySystem
import Synchronization

/// Hashes passwords on threads of its own. The number of hashes at one time is bounded, so that
/// logins take neither all of the memory nor all of the cores. The number of waiting hashes is
/// bounded too, so that a flood is refused at once.
///
/// Remote networks are served in turn (see ``FairQueue``): a network with a hundred waiting hashes
/// delays another network by one hash, and cannot take its place in the queue. Hashes of one network
/// begin in the order of their calls. A caller that is cancelled while it waits leaves the queue with
/// `CancellationError`; a hash that has begun is finished. Safe to use from any task or thread; no
/// call blocks its caller's thread.
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
    let network: RemoteNetwork
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

  /// A hasher. No thread exists until there is a password to hash.
  ///
  /// - Parameters:
  ///   - function: makes the tags.
  ///   - concurrentMax: hashes made at once, at least one. Each takes its parameters' memory.
  ///   - waitingMax: callers that may wait for their turn, at least zero.
  ///   - waitingPerNetworkMax: callers of one remote network that may wait, at least one.
  public init(
    function: any PasswordHashFunction = Argon2id(), concurrentMax: Int = 2, waitingMax: Int = 64,
    waitingPerNetworkMax: Int = 32
  ) {
    self.function = function
    self.concurrentMax = max(1, concurrentMax)
    state = Mutex(
      State(waiting: FairQueue(countMax: waitingMax, perKeyMax: waitingPerNetworkMax)))
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
  ///   - network: the remote network that the request comes from.
  /// - Throws: ``AccountError/overloaded`` if too many wait already, or later, if another network
  ///   needs the place more; ``AccountError/hashingFailed``; `CancellationError`.
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

  /// Whether `hash` is the hash of the password. Costs what that hash's parameters say, and takes
  /// as long for a wrong password as for the right one. Throws as
  /// ``hash(_:salt:parameters:for:)`` does.
  public func verify(
    _ password: [UInt8], against hash: PasswordHash, for network: RemoteNetwork = .local
  ) async throws -> Bool {
    let tag = try await tag(
      password, hash.salt, hash.parameters, tagBytes: hash.tag.count, for: network)
    return ConstantTime.areEqual(tag, hash.tag)
  }

  private func tag(
    _ password: [UInt8], _ salt: [UInt8], _ parameters: HashParameters, tagBytes: Int,
    for network: RemoteNetwork
  ) async throws -> [UInt8] {
    let function = function
    return try await run(for: network) {
      try function.tag(
        password: password, salt: salt, parameters: parameters, tagBytes: tagBytes)
    }
  }
}

extension PasswordHasher {
  private func run(
    for network: RemoteNetwork, _ work: @escaping @Sendable () throws -> [UInt8]
  ) async throws -> [UInt8] {
    let identifier = state.withLock { state in
      state.identifierNext &+= 1
      return state.identifierNext
    }
    return try await withTaskCancellationHandler {
      try await withCheckedThrowingContinuation { continuation in
        submit(
          Job(identifier: identifier, network: network, work: work, continuation: continuation))
        // If the cancellation came before the job was in the queue, the handler found nothing.
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
      return switch state.waiting.add(job, for: job.network) {
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

  /// Takes a cancelled job out of the queue. Does nothing if the job runs or has ended.
  private func leave(_ identifier: UInt64, _ network: RemoteNetwork) {
    let left = state.withLock { state in
      state.waiting.remove(of: network) { $0.identifier == identifier }
    }
    left?.continuation.resume(throwing: CancellationError())
  }

  /// Starts a thread that works on `job` and then on the jobs that wait, until none does.
  private func launch(_ job: Job) {
    var job: Job? = job
    while let refused = job {
      if WorkerThread.start({ self.work(from: refused) }) { return }
      // Without a thread the queue would not be worked off either: each job is tried in its turn.
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
      if let job = state.waiting.next() { return job }
      state.running -= 1
      return nil
    }
  }
}
