import CanopyAccounts
import CanopyTesting
import Synchronization

/// A cheap hash function that records its calls.
final class CountingHash: PasswordHashFunction {
  struct Call: Equatable {
    let password: [UInt8]
    let parameters: HashParameters
  }

  private let made = Mutex<[Call]>([])
  private let failing = Mutex(false)

  var calls: [Call] { made.withLock { $0 } }
  var count: Int { calls.count }

  func fail(_ isFailing: Bool) {
    failing.withLock { $0 = isFailing }
  }

  func tag(
    password: [UInt8], salt: [UInt8], parameters: HashParameters, tagBytes: Int
  ) throws -> [UInt8] {
    made.withLock { $0.append(Call(password: password, parameters: parameters)) }
    if failing.withLock({ $0 }) { throw AccountError.hashingFailed }
    return Self.tag(password, salt, parameters, tagBytes)
  }

  /// Returns FNV-1a of all arguments, extended to the length of a tag.
  static func tag(
    _ password: [UInt8], _ salt: [UInt8], _ parameters: HashParameters, _ tagBytes: Int
  ) -> [UInt8] {
    var state: UInt64 = 0xCBF2_9CE4_8422_2325
    let cost = [parameters.memoryKibibytes, parameters.passes, parameters.lanes].map {
      UInt8(truncatingIfNeeded: $0)
    }
    for byte in password + [0xFF] + salt + cost {
      state = (state ^ UInt64(byte)) &* 0x100_0000_01B3
    }
    var generator = SeededGenerator(seed: state)
    return generator.bytes(tagBytes)
  }
}
