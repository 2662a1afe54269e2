import CanopyTesting
import CanopyTree
import Testing

@testable import CanopyClient

/// The events of observers as text, in order.
typealias EventLog = Received<String>

extension DatabaseQuery {
  /// Adds the events of some types to a log: `+a`, `-a`, `~a` and `>a` for an added, a removed, a changed and a moved
  /// child, and `=` with the JSON of a value.
  ///
  /// - Parameter name: begins each text.
  @discardableResult
  func record(
    _ types: DataEventType..., to log: EventLog, as name: String = ""
  ) -> [DatabaseHandle] {
    types.map { type in
      observe(type, with: { log.add(name + type.text($0)) })
    }
  }

  /// Adds the events of a child to a log, with the key of the child before: `+b after a`.
  func recordPlaces(_ types: DataEventType..., to log: EventLog) {
    for type in types {
      observe(
        type,
        andPreviousSiblingKeyWith: { log.add("\(type.text($0)) after \($1 ?? "none")") })
    }
  }

  /// Returns the value of an observer that is removed at once.
  func first() async throws -> DataSnapshot {
    try await observeSingleEventAndPreviousSiblingKey(of: .value).0
  }

  /// Returns the keys of that value, in order.
  func keys() async throws -> [String] {
    try await first().childSnapshots.map(\.key)
  }
}

extension DataEventType {
  fileprivate func text(_ snapshot: DataSnapshot) -> String {
    switch self {
    case .childAdded: "+\(snapshot.key)"
    case .childRemoved: "-\(snapshot.key)"
    case .childChanged: "~\(snapshot.key)"
    case .childMoved: ">\(snapshot.key)"
    case .value: "=\(snapshot.node.json(.export))"
    }
  }
}

extension DatabaseReference {
  /// Waits until the server has confirmed all earlier writes, and the earlier events have been delivered.
  func waitUntilQuiet() async {
    await withCheckedContinuation { done in
      root.child("settled").setValue(nil) { _, _ in done.resume() }
    }
  }
}

extension Received where Value == String {
  /// Waits for a number of texts and returns the first ones up to it, with commas.
  func joined(_ count: Int) async -> String {
    await wait(for: count).prefix(count).joined(separator: ", ")
  }
}

/// Runs a test's body with two clients of a server that speaks a protocol, signed in as the administrator, and one
/// location.
func withPair(
  over kind: WireKind,
  _ body: (
    _ backend: Backend, _ writer: DatabaseReference, _ reader: DatabaseReference
  ) async throws -> Void
) async throws {
  try await withBackend(over: kind) { backend in
    let writer = try await backend.client().reference(withPath: "t")
    let reader = try await backend.client().reference(withPath: "t")
    try await body(backend, writer, reader)
  }
}
