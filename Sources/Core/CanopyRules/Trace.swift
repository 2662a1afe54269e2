internal import CanopyTree

/// An observer of an evaluation. The compiler specialises the evaluator for each kind of trace;
/// with `NoTrace` no trace code remains.
protocol Trace {
  /// Whether the trace uses values.
  static var isOn: Bool { get }
  /// Whether the trace records the locations that an evaluation reads.
  static var recordsReads: Bool { get }
  /// Whether an evaluation can meet data that is not known yet.
  static var lacksData: Bool { get }

  func begin(_ rule: Int32, at keys: [Key])
  func note(_ operation: Int32, _ value: Value)
  func end(_ result: Bool)
  func fail(_ failure: RuleFailure)
  /// Records a read of the tree.
  func visit(_ keys: [Key])
  /// Records a read of the time.
  func visitTime()
  /// Records a read of the query.
  func visitQuery()
  /// Whether the data of a base is known. Called only if `lacksData`.
  func knows(_ base: Program.Snapshot.Base) -> Bool
  /// Whether the time is known. Called only if `lacksData`.
  var knowsTime: Bool { get }
}

extension Trace {
  static var recordsReads: Bool { false }
  static var lacksData: Bool { false }

  @inline(__always) func visit(_ keys: [Key]) {}
  @inline(__always) func visitTime() {}
  @inline(__always) func visitQuery() {}
  @inline(__always) func knows(_ base: Program.Snapshot.Base) -> Bool { true }
  @inline(__always) var knowsTime: Bool { true }
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
  private(set) var dependsOnQuery = false

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

  func visitQuery() {
    dependsOnQuery = true
  }
}

/// A trace of an evaluation before a write is applied: the data after the write is not known, and perhaps not the
/// data before it.
final class PartialDataTrace: Trace {
  static var isOn: Bool { false }
  static var lacksData: Bool { true }

  /// Whether the data before the write and the time are known.
  let knowsBefore: Bool
  /// Whether the last rule asked for data that is not known.
  var wasUndecided = false

  var knowsTime: Bool { knowsBefore }

  init(knowsBefore: Bool) {
    self.knowsBefore = knowsBefore
  }

  func begin(_ rule: Int32, at keys: [Key]) { wasUndecided = false }
  func note(_ operation: Int32, _ value: Value) {}
  func end(_ result: Bool) {}

  func fail(_ failure: RuleFailure) {
    if case .unknownData = failure.reason { wasUndecided = true }
  }

  func knows(_ base: Program.Snapshot.Base) -> Bool { base != .newData && knowsBefore }
}
