import CanopyTree
import Synchronization
import Testing

@testable import CanopyEngine

/// A value that tests pass as an error.
struct Refusal: Error, Equatable {}

/// Returns a node from its JSON. Invalid JSON gives a string that says so.
func json(_ text: String) -> Node {
  (try? Node(json: text)) ?? Node("not JSON: \(text)")
}

/// Collects answers in their order.
final class Answers<Value: Sendable>: Sendable {
  private struct State {
    var values: [Value] = []
    var waiting: (count: Int, continuation: CheckedContinuation<Void, Never>)?
  }

  private let state = Mutex(State())

  var values: [Value] { state.withLock { $0.values } }

  func add(_ value: Value) {
    let ready = state.withLock { state -> CheckedContinuation<Void, Never>? in
      state.values.append(value)
      guard let waiting = state.waiting, state.values.count >= waiting.count else { return nil }
      state.waiting = nil
      return waiting.continuation
    }
    ready?.resume()
  }

  /// Waits until there are so many answers.
  func wait(for count: Int) async -> [Value] {
    await withCheckedContinuation { continuation in
      let isReady = state.withLock { state in
        if state.values.count < count { state.waiting = (count, continuation) }
        return state.values.count >= count
      }
      if isReady { continuation.resume() }
    }
    return values
  }
}

/// The outcome of a submission.
enum Outcome: Equatable {
  case committed(Int64)
  case failed(EngineError)
  case refused
}

extension Engine {
  /// Sets the value at a path, and returns the sequence number.
  @discardableResult
  func set(_ path: String, _ value: Node) async throws -> Int64 {
    try await transact { _ in Decision(try .set(Location(path), WriteValue(value)), ()) }.sequence
  }

  /// Adds one to the number at a path by reading it and writing it, and returns the sum.
  @discardableResult
  func increment(_ path: String) async throws -> Int64 {
    try await transact { proposal in
      let path = try Path(path)
      let sum = (proposal.root.at(path).integerValue ?? 0) + 1
      return Decision(try .set(Location(path), WriteValue(Node(sum))), sum)
    }.result
  }

  /// Returns the value at a path in the current tree.
  func value(_ path: String) -> Node {
    (try? Path(path)).map { root.at($0) } ?? .absent
  }

  /// Submits the setting of a path without waiting.
  func submitSet(_ path: String, _ value: Node, _ answers: Answers<Outcome>) {
    submit { _ in
      Decision(try .set(Location(path), WriteValue(value)), ())
    } completion: {
      answers.add(Outcome($0))
    }
  }

  /// Submits a transaction that is refused, without waiting.
  func submitRefused(_ answers: Answers<Outcome>) {
    submit { _ -> Decision<Void> in
      throw Refusal()
    } completion: {
      answers.add(Outcome($0))
    }
  }

  /// Submits a transaction that writes nothing, without waiting.
  func submitRead(_ answers: Answers<Outcome>) {
    submit { _ in
      Decision(nil, ())
    } completion: {
      answers.add(Outcome($0))
    }
  }
}

extension Outcome {
  init(_ result: Result<Committed<Void>, any Error>) {
    switch result {
    case .success(let committed): self = .committed(committed.sequence)
    case .failure(let error as EngineError): self = .failed(error)
    case .failure: self = .refused
    }
  }
}

/// A policy of closures.
struct TestPolicy: WritePolicy {
  var denies: (@Sendable (Write) -> Bool)?
  var allows: @Sendable (ProposedWrite) -> Bool = { _ in true }
  var derive: (@Sendable (ProposedWrite) throws -> [Assignment]?)?

  func denies(_ write: Write, before: Node, at time: Int64) -> Bool { denies?(write) ?? false }
  func allows(_ write: ProposedWrite) -> Bool { allows(write) }
  func derive(_ write: ProposedWrite) throws -> [Assignment]? { try derive?(write) }
}

extension Decision {
  init(
    _ write: Write?, _ result: Result, authorize: @escaping @Sendable (ProposedWrite) -> Bool,
    derive: (@Sendable (ProposedWrite) throws -> [Assignment]?)? = nil
  ) {
    self.init(write, result, policy: TestPolicy(allows: authorize, derive: derive))
  }
}

extension Listening {
  /// Expects that events lead a listener from one version of its location to a later one.
  func expect(
    _ events: [ListenEvent], from before: Node, to after: Node,
    at location: SourceLocation = #_sourceLocation
  ) {
    switch form {
    case .child:
      #expect(
        events == query.changes(from: before, to: after).map(ListenEvent.child),
        sourceLocation: location)
    case .value:
      #expect(
        events.isEmpty
          ? query.value(of: before) == query.value(of: after) : events == [.value(after)],
        sourceLocation: location)
    case .sync:
      var copy = Tree(root: query.value(of: before))
      for case .put(let puts) in events { copy.apply(puts) }
      #expect(copy.root == query.value(of: after), "\(self)", sourceLocation: location)
    }
  }
}
