internal import CanopyTree

/// Follows the evaluation of rules. The compiler makes code for each kind of trace; with `NoTrace`
/// nothing is left of it.
protocol Trace {
  /// Whether values are worth making.
  static var isOn: Bool { get }
  /// Whether it is to be told what an evaluation looks at.
  static var notesPlaces: Bool { get }

  func begin(_ rule: Int32, at keys: [Key])
  func note(_ operation: Int32, _ value: Value)
  func end(_ result: Bool)
  func fail(_ failure: RuleFailure)
  /// The tree was looked at there.
  func visit(_ keys: [Key])
  /// The time was asked for.
  func visitTime()
}

extension Trace {
  static var notesPlaces: Bool { false }

  @inline(__always) func visit(_ keys: [Key]) {}
  @inline(__always) func visitTime() {}
}

/// Follows nothing.
struct NoTrace: Trace {
  static var isOn: Bool { false }

  @inline(__always) func begin(_ rule: Int32, at keys: [Key]) {}
  @inline(__always) func note(_ operation: Int32, _ value: Value) {}
  @inline(__always) func end(_ result: Bool) {}
  @inline(__always) func fail(_ failure: RuleFailure) {}
}

/// Keeps everything. An object, so that evaluating changes nothing else and can be told so.
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

/// Keeps what an evaluation depends on besides the rules and who asks.
final class PlacesTrace: Trace {
  static var isOn: Bool { false }
  static var notesPlaces: Bool { true }

  private(set) var places: [Path] = []
  private var seen: Set<Path> = []
  private(set) var dependsOnTime = false

  func begin(_ rule: Int32, at keys: [Key]) {}
  func note(_ operation: Int32, _ value: Value) {}
  func end(_ result: Bool) {}
  func fail(_ failure: RuleFailure) {}

  func visit(_ keys: [Key]) {
    let place = keys.reduce(Path.root) { $0.child($1) }
    if seen.insert(place).inserted { places.append(place) }
  }

  func visitTime() {
    dependsOnTime = true
  }
}
