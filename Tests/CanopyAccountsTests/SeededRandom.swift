import Foundation
import Synchronization

/// SplitMix64: random numbers that a seed repeats. Not for secrets.
struct SeededGenerator: RandomNumberGenerator {
  private var state: UInt64

  init(seed: UInt64) {
    state = seed
  }

  /// A generator with a new seed, which it prints; `CANOPY_SEED=… swift test` repeats a run.
  init(printingSeedFor test: String) {
    let given = ProcessInfo.processInfo.environment["CANOPY_SEED"].flatMap(UInt64.init)
    let seed = given ?? UInt64.random(in: .min ... .max)
    print("\(test): CANOPY_SEED=\(seed)")
    self.init(seed: seed)
  }

  mutating func next() -> UInt64 {
    state &+= 0x9E37_79B9_7F4A_7C15
    var mixed = state
    mixed = (mixed ^ (mixed >> 30)) &* 0xBF58_476D_1CE4_E5B9
    mixed = (mixed ^ (mixed >> 27)) &* 0x94D0_49BB_1331_11EB
    return mixed ^ (mixed >> 31)
  }

  mutating func bytes(_ count: Int) -> [UInt8] {
    (0..<count).map { _ in UInt8.random(in: .min ... .max, using: &self) }
  }
}

/// A source of repeatable bytes that tasks can share.
final class SeededBytes: Sendable {
  private let generator: Mutex<SeededGenerator>

  init(seed: UInt64 = 1) {
    generator = Mutex(SeededGenerator(seed: seed))
  }

  func callAsFunction(_ count: Int) -> [UInt8] {
    generator.withLock { $0.bytes(count) }
  }
}
