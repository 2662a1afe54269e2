internal import CanopyTree

/// Follows the evaluation of rules. The compiler makes code for each kind of trace; with `NoTrace`
/// nothing is left of it.
protocol Trace {
  /// Whether values are worth making.
  static var isOn: Bool { get }

  mutating func begin(_ rule: Int32, at keys: [Key])
  mutating func note(_ operation: Int32, _ value: Value)
  mutating func end(_ result: Bool)
  mutating func fail(_ failure: RuleFailure)
}

/// Follows nothing.
struct NoTrace: Trace {
  static var isOn: Bool { false }

  @inline(__always) mutating func begin(_ rule: Int32, at keys: [Key]) {}
  @inline(__always) mutating func note(_ operation: Int32, _ value: Value) {}
  @inline(__always) mutating func end(_ result: Bool) {}
  @inline(__always) mutating func fail(_ failure: RuleFailure) {}
}

/// Keeps everything.
struct FullTrace: Trace {
  struct Entry {
    var rule: Int32
    var location: Path
    var values: [(operation: Int32, value: Value)] = []
    var outcome = RuleOutcome.isFalse
  }

  static var isOn: Bool { true }

  private(set) var entries: [Entry] = []

  mutating func begin(_ rule: Int32, at keys: [Key]) {
    let location = keys.reduce(Path.root) { $0.child($1) }
    entries.append(Entry(rule: rule, location: location))
  }

  mutating func note(_ operation: Int32, _ value: Value) {
    guard !entries.isEmpty else { return }
    entries[entries.count - 1].values.append((operation, value))
  }

  mutating func end(_ result: Bool) {
    guard !entries.isEmpty else { return }
    entries[entries.count - 1].outcome = result ? .isTrue : .isFalse
  }

  mutating func fail(_ failure: RuleFailure) {
    guard !entries.isEmpty else { return }
    entries[entries.count - 1].outcome = .failed(failure.sentence)
  }
}
