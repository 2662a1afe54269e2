import CanopyTesting

typealias SeededRandom = SeededGenerator

extension SeededGenerator {
  /// One of the first `n` numbers.
  mutating func below(_ n: Int) -> Int {
    Int.random(in: 0..<n, using: &self)
  }
}

/// Runs a random test, printing the seed that repeats it.
func withSeed(
  _ name: String = #function, _ body: (inout SeededRandom) throws -> Void
) rethrows {
  var random = SeededRandom(printingSeedFor: name)
  try body(&random)
}
