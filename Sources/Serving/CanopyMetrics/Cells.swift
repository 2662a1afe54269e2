internal import CoreMetrics
internal import Synchronization

/// A number that only grows. Safe to use from any thread.
final class CounterCell: CounterHandler, FloatingPointCounterHandler, Sendable {
  private let count = Atomic<Int64>(0)
  private let fraction = DoubleCell()

  var value: Double { Double(count.load(ordering: .relaxed)) + fraction.value }

  func increment(by amount: Int64) { count.wrappingAdd(amount, ordering: .relaxed) }

  func increment(by amount: Double) { fraction.add(amount) }

  func reset() {
    count.store(0, ordering: .relaxed)
    fraction.set(0)
  }
}

/// A floating-point number. Safe to use from any thread.
final class DoubleCell: Sendable {
  private let bits = Atomic<UInt64>(0)

  var value: Double { Double(bitPattern: bits.load(ordering: .relaxed)) }

  func set(_ value: Double) { bits.store(value.bitPattern, ordering: .relaxed) }

  func add(_ amount: Double) {
    var old = bits.load(ordering: .relaxed)
    while true {
      let new = (Double(bitPattern: old) + amount).bitPattern
      let (isExchanged, present) = bits.compareExchange(
        expected: old, desired: new, ordering: .relaxed)
      if isExchanged { return }
      old = present
    }
  }
}

/// A number at this moment. Safe to use from any thread.
final class GaugeCell: MeterHandler, Sendable {
  private let cell = DoubleCell()

  var value: Double { cell.value }

  func set(_ value: Int64) { cell.set(Double(value)) }

  func set(_ value: Double) { cell.set(value) }

  func increment(by amount: Double) { cell.add(amount) }

  func decrement(by amount: Double) { cell.add(-amount) }
}

/// The numbers of values below bounds. Safe to use from any thread.
final class HistogramCell: TimerHandler, RecorderHandler, Sendable {
  let bounds: [Double]
  private let counts: [CounterCell]
  private let total = DoubleCell()

  init(bounds: [Double]) {
    self.bounds = bounds
    counts = (0...bounds.count).map { _ in CounterCell() }
  }

  /// The bounds of times, in seconds.
  static let seconds = [
    0.000_05, 0.000_1, 0.000_25, 0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5,
    1, 2.5, 5, 10,
  ]

  /// The bounds of numbers of things.
  static let numbers: [Double] = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096]

  /// The numbers of values, one for each bound and one for those above.
  var values: [Int64] { counts.map { Int64($0.value) } }

  var sum: Double { total.value }

  func record(_ value: Double) {
    let index = bounds.firstIndex { value <= $0 } ?? bounds.count
    counts[index].increment(by: 1 as Int64)
    total.add(value)
  }

  func record(_ value: Int64) { record(Double(value)) }

  func recordNanoseconds(_ duration: Int64) { record(Double(duration) / 1_000_000_000) }
}
