internal import Dispatch
internal import Synchronization

/// A function of the application, with the actor on which it must run.
///
/// The compiler knows the actor from the place where the application writes the function: a function
/// in code of a `@MainActor` type or of an actor may use the state there, and any other function may
/// use `Sendable` values alone. So no function can run outside the actor whose state it uses.
struct Callback<Argument: Sendable>: Sendable {
  /// The actor; nil if the function may run anywhere.
  let isolation: (any Actor)?
  /// Calls the function. Call on the actor.
  let body: @Sendable (Argument) -> Void

  /// Creates a callback from a function that may run anywhere.
  init(_ body: @escaping @Sendable (Argument) -> Void) {
    isolation = nil
    self.body = body
  }

  private init(_ isolation: (any Actor)?, _ body: @escaping @Sendable (Argument) -> Void) {
    self.isolation = isolation
    self.body = body
  }

  /// Returns a callback with another argument.
  func map<Other: Sendable>(_ argument: @escaping @Sendable (Other) -> Argument) -> Callback<Other>
  {
    Callback<Other>(isolation) { [body] in body(argument($0)) }
  }

  // The casts drop `@isolated(any)`. It adds the actor to what a function carries and does not change
  // how the function is called, so both types have the same layout and the same calling convention;
  // the standard library casts functions in the same way in `assumeIsolated`. `Callbacks` runs the
  // result on the actor.
  //
  // Without a cast the language calls such a function only with `await`. That would break two
  // promises. A function without an actor would leave the callback queue for a thread of Swift's pool,
  // also in a task that prefers an executor of that queue. And an observer could be removed on an actor
  // between the check that it is still wanted and its call on that actor.

  /// Creates a callback from a function of the application.
  init(of function: @escaping @Sendable @isolated(any) (Argument) -> Void) {
    self.init(
      function.isolation, unsafeBitCast(function, to: (@Sendable (Argument) -> Void).self))
  }

  /// Creates a callback from a function of the application with two parameters.
  init<A: Sendable, B: Sendable>(of function: @escaping @Sendable @isolated(any) (A, B) -> Void)
  where Argument == (A, B) {
    let body = unsafeBitCast(function, to: (@Sendable (A, B) -> Void).self)
    self.init(function.isolation) { body($0.0, $0.1) }
  }

  /// Creates a callback from a function of the application with three parameters.
  init<A: Sendable, B: Sendable, C: Sendable>(
    of function: @escaping @Sendable @isolated(any) (A, B, C) -> Void
  ) where Argument == (A, B, C) {
    let body = unsafeBitCast(function, to: (@Sendable (A, B, C) -> Void).self)
    self.init(function.isolation) { body($0.0, $0.1, $0.2) }
  }
}

/// One call of a function of the application.
struct ApplicationCall: Sendable {
  /// The actor; nil for the callback queue.
  var isolation: (any Actor)?
  var body: @Sendable () -> Void
}

/// The calls of the application's functions, each on its actor or on the callback queue. Calls on the
/// same actor, and those on the queue, keep their order.
final class Callbacks: Sendable {
  private let queueBox = Mutex(DispatchQueue.main)
  private let onActors = Mutex<AsyncStream<ApplicationCall>.Continuation?>(nil)

  var queue: DispatchQueue {
    get { queueBox.withLock { $0 } }
    set { queueBox.withLock { $0 = newValue } }
  }

  deinit {
    onActors.withLock { $0?.finish() }
  }

  /// Calls functions one after the other, after all earlier ones.
  func call(_ calls: [ApplicationCall]) {
    guard !calls.isEmpty else { return }
    let queue = queue
    let isMain = queue === DispatchQueue.main
    var onQueue: [@Sendable () -> Void] = []
    var onMain: [@Sendable () -> Void] = []
    onQueue.reserveCapacity(calls.count)
    for call in calls {
      guard let actor = call.isolation else {
        onQueue.append(call.body)
        continue
      }
      if actor !== MainActor.shared {
        enqueueOnActor(call)
      } else if isMain {
        onQueue.append(call.body)
      } else {
        onMain.append(call.body)
      }
    }
    Self.run(onQueue, on: queue)
    Self.run(onMain, on: .main)
  }

  private static func run(_ bodies: [@Sendable () -> Void], on queue: DispatchQueue) {
    guard !bodies.isEmpty else { return }
    queue.async { for body in bodies { body() } }
  }

  /// Calls a function on an actor other than the main one, after the earlier ones of all such actors.
  private func enqueueOnActor(_ call: ApplicationCall) {
    onActors.withLock { continuation in
      if let continuation {
        continuation.yield(call)
        return
      }
      let (calls, new) = AsyncStream.makeStream(of: ApplicationCall.self)
      continuation = new
      Task {
        for await call in calls {
          if let actor = call.isolation { await Self.run(call.body, on: actor) }
        }
      }
      new.yield(call)
    }
  }

  private static func run(_ body: @Sendable () -> Void, on actor: isolated any Actor) {
    body()
  }
}
