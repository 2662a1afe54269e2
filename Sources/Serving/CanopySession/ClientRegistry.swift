public import CanopyWire
internal import Synchronization

/// The open connections of all ports, for the administrator.
///
/// The registry does not know the connections. It asks the event loops, each of which keeps a list of its own, so that
/// connections and their requests take no common lock. Safe to use from any thread.
public final class ClientRegistry: Sendable {
  private let lastID = Atomic<Int64>(0)
  private let sources = Mutex<[Int64: any ClientSource]>([:])

  /// Creates a registry without connections.
  public init() {}

  /// Returns the number of a new connection: one more than that of the last one.
  public func nextID() -> Int64 { lastID.wrappingAdd(1, ordering: .relaxed).newValue }

  /// Adds the connections of an event loop, and returns a number for their removal.
  public func add(_ source: any ClientSource) -> Int64 {
    let id = nextID()
    sources.withLock { $0[id] = source }
    return id
  }

  /// Removes the connections of an event loop.
  public func remove(source id: Int64) {
    sources.withLock { $0[id] = nil }
  }

  /// Asks all event loops, and returns their answers by the number of the connection, and the number of loops that did
  /// not answer in time.
  func ask(
    _ question: ClientQuestion, patience: Duration = .seconds(2)
  ) async -> (clients: [ClientState], unanswered: Int) {
    let sources = sources.withLock { Array($0.values) }
    let answers = ClientAnswers(waiting: sources.count)
    var deadline: Task<Void, Never>?
    defer { deadline?.cancel() }
    return await withCheckedContinuation { continuation in
      answers.begin(continuation)
      for source in sources { source.ask(question) { answers.add($0) } }
      deadline = Task {
        try? await Task.sleep(for: patience)
        answers.end()
      }
    }
  }
}

/// A question to the connections of an event loop.
public enum ClientQuestion: Sendable {
  /// The first connections after the one with a number, in the order of their numbers.
  case page(after: Int64, limit: Int)
  /// The connection with a number, with its lists.
  case one(Int64, listMax: Int)
  /// Ends the connection with a number. The answer has its state before.
  case end(Int64, WireError)
  /// The connections that rest in a namespace besides the default one: see `Session.isResting`. Also
  /// those whose clients have stopped reading.
  case resting
  /// Ends the connections that rest in a namespace, so that they no longer keep it open. The answer has their states
  /// before.
  case endResting(NamespaceName, WireError)
}

/// The connections of an event loop.
public protocol ClientSource: Sendable {
  /// Answers on the loop, soon, or never if the loop has ended. Called on any thread.
  func ask(
    _ question: ClientQuestion, _ answer: @escaping @Sendable ([ClientState]) -> Void)
}

/// Collects the answers of the loops until all have answered or the time is over.
private final class ClientAnswers: Sendable {
  typealias Result = (clients: [ClientState], unanswered: Int)

  private struct State {
    var clients: [ClientState] = []
    var waiting: Int
    var continuation: CheckedContinuation<Result, Never>?
    var isOver = false
  }

  private let state: Mutex<State>

  init(waiting: Int) {
    state = Mutex(State(waiting: waiting))
  }

  func begin(_ continuation: CheckedContinuation<Result, Never>) {
    change { $0.continuation = continuation }
  }

  func add(_ clients: [ClientState]) {
    change { state in
      state.clients += clients
      state.waiting -= 1
    }
  }

  func end() {
    change { $0.isOver = true }
  }

  private func change(_ body: (inout State) -> Void) {
    let done = state.withLock { state -> (CheckedContinuation<Result, Never>, Result)? in
      body(&state)
      guard state.waiting == 0 || state.isOver, let continuation = state.continuation.take() else {
        return nil
      }
      return (continuation, (state.clients.sorted { $0.id < $1.id }, state.waiting))
    }
    if let (continuation, result) = done { continuation.resume(returning: result) }
  }
}
