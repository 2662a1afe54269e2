public import CanopyAccounts
import Foundation
import Synchronization

/// Argon2id with the lowest cost, which a test can hold.
public final class LineHash: PasswordHashFunction {
  private struct State {
    var isHeld = false
    var running = 0
  }

  private let state = Mutex(State())
  private let change = NSCondition()

  /// Creates a function that is not held.
  public init() {}

  /// Makes hashes that begin from now on wait until `release`.
  public func hold() {
    state.withLock { $0.isHeld = true }
  }

  /// Lets all hashes complete.
  public func release() {
    state.withLock { $0.isHeld = false }
    change.lock()
    change.broadcast()
    change.unlock()
  }

  /// The number of hashes under way.
  public var running: Int { state.withLock { $0.running } }

  /// See `PasswordHashFunction`. Blocks its thread, which belongs to the hasher.
  public func tag(
    password: [UInt8], salt: [UInt8], parameters: HashParameters, tagBytes: Int
  ) throws -> [UInt8] {
    state.withLock { $0.running += 1 }
    defer { state.withLock { $0.running -= 1 } }
    change.lock()
    while state.withLock({ $0.isHeld }) { change.wait() }
    change.unlock()
    return try Argon2id().tag(
      password: password, salt: salt, parameters: parameters, tagBytes: tagBytes)
  }
}
