internal import CanopyTree

/// An observer of an evaluation. The compiler specialises the evaluator for each kind of trace;
/// with `NoTrace` no trace code remains.
protocol Trace {
  /// Whether the trace uses values.
  static var isOn: Bool { get }
  /// Whether the trace records the locations that an evaluation reads.
  static var recordsReads: Bool { get }

  func begin(_ rule: Int32, at keys: [Key])
  func note(_ operation: Int32, _ value: Value)
  func end(_ result: Bool)
  func fail(_ failure: RuleFailure)
  /// Records a read of the tree.
  func visit(_ keys: [Key])
  /// Records a read of the time.
  func visitTime()
}

extension Trace {
  static var recordsReads: Bool { false }

  @inline(__always) func visit(_ keys: [Key]) {}
  @inline(__always) func visitTime() {}
}

/// A trace that records nothing.
struct NoTrace: Trace {
  static var isOn: Bool { false }

  @inline(__always) func begin(_ rule: Int32, at keys: [Key]) {}
  @inline(__always) func note(_ operation: Int32, _ value: Value) {}
  @inline(__always) func end(_ result: Bool) {}
  @inline(__always) func fail(_ failure: RuleFailure) {}
}

/// A trace that records everything. A class, so that evaluation does not change it through the
/// evaluator.
final class FullTrace: Trace {
  struct Entry {
    var rule: Int32
    var location: Path
    var values: [(operation: Int32, value: Value)] = []
    var outcome = RuleOutcome.isFalse
  }

  static var isOn: Bool { true }

  private(set) var entries: [Entry] = []

  func begin(_ rule: Int32, at keys: [Key]) {
    let location = keys.reduce(Path.root) { $0.child($1) }
    entries.append(Entry(rule: rule, location: location))
  }

  func note(_ operation: Int32, _ value: Value) {
    guard !entries.isEmpty else { return }
    entries[entries.count - 1].values.append((operation, value))
  }

  func end(_ result: Bool) {
    guard !entries.isEmpty else { return }
    entries[entries.count - 1].outcome = result ? .isTrue : .isFalse
  }

  func fail(_ failure: RuleFailure) {
    guard !entries.isEmpty else { return }
    entries[entries.count - 1].outcome = .failed(failure.sentence)
  }
}

/// A trace that records the dependencies of an evaluation, apart from the rules and the caller.
final class DependencyTrace: Trace {
  static var isOn: Bool { false }
  static var recordsReads: Bool { true }

  private(set) var locations: [Path] = []
  private var seen: Set<Path> = []
  private(set) var dependsOnTime = false

  func begin(_ rule: Int32, at keys: [Key]) {}
  func note(_ operation: Int32, _ value: Value) {}
  func end(_ result: Bool) {}
  func fail(_ failure: RuleFailure) {}

  func visit(_ keys: [Key]) {
    let path = keys.reduce(Path.root) { $0.child($1) }
    if seen.insert(path).inserted { locations.append(path) }
  }

  func visitTime() {
    dependsOnTime = true
  }
}
