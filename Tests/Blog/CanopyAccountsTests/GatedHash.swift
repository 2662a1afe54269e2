import CanopyAccounts
import Dispatch
import Synchronization

/// A hash function whose calls wait until the test releases them.
final class GatedHash: PasswordHashFunction {
  private struct Count {
    var running = 0
    var runningMax = 0
  }

  private let gate = DispatchSemaphore(value: 0)
  private let count = Mutex(Count())
  private let announce: AsyncStream<UInt8>.Continuation

  /// The first byte of each password, in the order in which the hashes began.
  let started: AsyncStream<UInt8>

  init() {
    (started, announce) = AsyncStream.makeStream()
  }

  /// The greatest number of simultaneous calls.
  var runningMax: Int { count.withLock { $0.runningMax } }

  /// Releases a number of calls.
  func release(_ calls: Int = 1) {
    for _ in 0..<calls { gate.signal() }
  }

  func tag(
    password: [UInt8], salt: [UInt8], parameters: HashParameters, tagBytes: Int
  ) throws -> [UInt8] {
    count.withLock { count in
      count.running += 1
      count.runningMax = max(count.runningMax, count.running)
    }
    announce.yield(password.first ?? 0)
    gate.wait()
    count.withLock { $0.running -= 1 }
    return CountingHash.tag(password, salt, parameters, tagBytes)
  }
}
