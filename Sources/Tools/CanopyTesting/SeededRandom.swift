internal import CanopyTree
internal import Foundation
internal import Synchronization

/// A generator of random numbers (SplitMix64) that a seed determines. It is not fit for secrets.
public struct SeededGenerator: RandomNumberGenerator, Sendable {
  private var generator: SplitMix64

  /// Creates a generator whose numbers depend on the seed alone.
  public init(seed: UInt64) {
    generator = SplitMix64(seed: seed)
  }

  /// Creates a generator with a new seed, and prints the seed. `CANOPY_SEED=… swift test` repeats a run.
  public init(printingSeedFor test: String) {
    let given = ProcessInfo.processInfo.environment["CANOPY_SEED"].flatMap { UInt64($0) }
    let seed = given ?? UInt64.random(in: .min ... .max)
    print("\(test): CANOPY_SEED=\(seed)")
    self.init(seed: seed)
  }

  /// Returns the next number.
  public mutating func next() -> UInt64 {
    generator.next()
  }

  /// Returns `count` random bytes.
  public mutating func bytes(_ count: Int) -> [UInt8] {
    (0..<count).map { _ in UInt8.random(in: .min ... .max, using: &self) }
  }

  /// Returns true once in `n` times.
  public mutating func oneIn(_ n: Int) -> Bool {
    Int.random(in: 0..<n, using: &self) == 0
  }

  /// Returns a random element. Precondition: there is one.
  public mutating func pick<C: RandomAccessCollection>(_ elements: C) -> C.Element {
    let offset = Int.random(in: 0..<elements.count, using: &self)
    return elements[elements.index(elements.startIndex, offsetBy: offset)]
  }
}

/// A source of repeatable random bytes and words that tasks can share.
public final class SeededBytes: Sendable {
  private let generator: Mutex<SeededGenerator>

  /// Creates a source whose bytes depend on the seed alone.
  public init(seed: UInt64 = 1) {
    generator = Mutex(SeededGenerator(seed: seed))
  }

  /// Returns `count` random bytes.
  public func callAsFunction(_ count: Int) -> [UInt8] {
    generator.withLock { $0.bytes(count) }
  }

  /// Returns a random word.
  public func word() -> UInt64 {
    generator.withLock { $0.next() }
  }
}
