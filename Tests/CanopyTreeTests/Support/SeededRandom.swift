import CanopyTesting

@testable import CanopyTree

typealias SeededRandom = SeededGenerator

extension SeededGenerator {
  /// One of the first `n` numbers.
  mutating func below(_ n: Int) -> Int {
    Int.random(in: 0..<n, using: &self)
  }
}

/// Runs a random test, printing the seed that repeats it.
///
/// With no branches as records, with some of them, and with most.
func withSeed(
  _ name: String = #function, _ body: (inout SeededRandom) throws -> Void
) rethrows {
  for recordBytesMax in [0, 40, 2048] {
    var random = SeededRandom(printingSeedFor: name)
    try Record.$bytesMax.withValue(recordBytesMax) { try body(&random) }
  }
}
