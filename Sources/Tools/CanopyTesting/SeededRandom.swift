internal import CanopyTree
internal import Foundation
internal import Synchronization

/// SplitMix64: random numbers that a seed repeats. Not for secrets.
public struct SeededGenerator: RandomNumberGenerator, Sendable {
  private var generator: SplitMix64

  /// A generator whose numbers the seed decides.
  public init(seed: UInt64) {
    generator = SplitMix64(seed: seed)
  }

  /// A generator with a new seed, which it prints; `CANOPY_SEED=… swift test` repeats a run.
  public init(printingSeedFor test: String) {
    let given = ProcessInfo.processInfo.environment["CANOPY_SEED"].flatMap { UInt64($0) }
    let seed = given ?? UInt64.random(in: .min ... .max)
    print("\(test): CANOPY_SEED=\(seed)")
    self.init(seed: seed)
  }

  /// The next number.
  public mutating func next() -> UInt64 {
    generator.next()
  }

  /// So many random bytes.
  public mutating func bytes(_ count: Int) -> [UInt8] {
    (0..<count).map { _ in UInt8.random(in: .min ... .max, using: &self) }
  }

  /// Whether something that happens once in `n` times happens.
  public mutating func oneIn(_ n: Int) -> Bool {
    Int.random(in: 0..<n, using: &self) == 0
  }

  /// One of these.
  public mutating func pick<C: RandomAccessCollection>(_ elements: C) -> C.Element {
    let offset = Int.random(in: 0..<elements.count, using: &self)
    return elements[elements.index(elements.startIndex, offsetBy: offset)]
  }
}

/// A source of repeatable bytes and words that tasks can share.
public final class SeededBytes: Sendable {
  private let generator: Mutex<SeededGenerator>

  /// A source whose bytes the seed decides.
  public init(seed: UInt64 = 1) {
    generator = Mutex(SeededGenerator(seed: seed))
  }

  /// So many random bytes.
  public func callAsFunction(_ count: Int) -> [UInt8] {
    generator.withLock { $0.bytes(count) }
  }

  /// A random word.
  public func word() -> UInt64 {
    generator.withLock { $0.next() }
  }
}
