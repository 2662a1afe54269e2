import CanopyTesting

@testable import CanopyTree

typealias SeededRandom = SeededGenerator

extension SeededGenerator {
  /// Returns one of the first `n` numbers.
  mutating func below(_ n: Int) -> Int {
    Int.random(in: 0..<n, using: &self)
  }
}

/// Runs a random test and prints the seed that repeats it.
///
/// Runs it without packed branches, with some, and with most branches packed.
func withSeed(
  _ name: String = #function, _ body: (inout SeededRandom) throws -> Void
) rethrows {
  for recordBytesMax in [0, 40, 2048] {
    var random = SeededRandom(printingSeedFor: name)
    try PackedBranch.$bytesMax.withValue(recordBytesMax) { try body(&random) }
  }
}
