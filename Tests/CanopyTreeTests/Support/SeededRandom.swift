import Foundation
import Testing

/// A source of random numbers that gives the same ones for the same seed (SplitMix64).
struct SeededRandom: RandomNumberGenerator {
  private var state: UInt64

  init(seed: UInt64) {
    state = seed
  }

  mutating func next() -> UInt64 {
    state &+= 0x9E37_79B9_7F4A_7C15
    var z = state
    z = (z ^ (z >> 30)) &* 0xBF58_476D_1CE4_E5B9
    z = (z ^ (z >> 27)) &* 0x94D0_49BB_1331_11EB
    return z ^ (z >> 31)
  }

  /// Whether something that happens once in `n` times happens now.
  mutating func oneIn(_ n: Int) -> Bool {
    Int.random(in: 0..<n, using: &self) == 0
  }

  mutating func below(_ n: Int) -> Int {
    Int.random(in: 0..<n, using: &self)
  }

  mutating func pick<C: Collection>(_ choices: C) -> C.Element where C.Index == Int {
    choices[choices.startIndex + below(choices.count)]
  }
}

/// Runs a random test, printing the seed that repeats it.
///
/// The seed is that of the environment variable `CANOPY_SEED`, or a new one.
func withSeed(
  _ name: String = #function, _ body: (inout SeededRandom) throws -> Void
) rethrows {
  let given = ProcessInfo.processInfo.environment["CANOPY_SEED"].flatMap { UInt64($0) }
  let seed = given ?? UInt64.random(in: 0..<1 << 32)
  print("CANOPY_SEED=\(seed) for \(name)")
  var random = SeededRandom(seed: seed)
  try body(&random)
}
