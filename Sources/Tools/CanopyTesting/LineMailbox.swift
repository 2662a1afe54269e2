import Synchronization

/// The lines that a client has received and not yet read.
///
/// A reader waits until a line arrives, the server closes the connection, or the task is cancelled. The test's time
/// limit is the only deadline.
public final class LineMailbox: Sendable {
  private struct State {
    var partial: [UInt8] = []
    var lines: [String] = []
    var next = 0
    var isClosed = false
    var waiter: CheckedContinuation<Void, any Error>?

    mutating func takeLine() -> String? {
      guard next < lines.count else { return nil }
      let line = lines[next]
      next += 1
      if next == lines.count {
        lines.removeAll(keepingCapacity: true)
        next = 0
      }
      return line
    }
  }

  private let state = Mutex(State())

  /// Creates an empty mailbox.
  public init() {}

  /// Adds bytes from the server.
  public func receive(_ bytes: [UInt8]) {
    let waiter = state.withLock { state -> CheckedContinuation<Void, any Error>? in
      var rest = bytes[...]
      while let end = rest.firstIndex(of: UInt8(ascii: "\n")) {
        state.partial += rest[..<end]
        rest = rest[(end + 1)...]
        // Lines of the server end in CRLF. Another line gets a mark that no test expects.
        let hasReturn = state.partial.last == UInt8(ascii: "\r")
        if hasReturn { state.partial.removeLast() }
        let line = String(decoding: state.partial, as: UTF8.self)
        state.lines.append(hasReturn ? line : line + " (without CR)")
        state.partial.removeAll(keepingCapacity: true)
      }
      state.partial += rest
      return state.next < state.lines.count ? state.waiter.take() : nil
    }
    waiter?.resume()
  }

  /// Marks the end of the input.
  public func close() {
    let waiter = state.withLock { state in
      state.isClosed = true
      return state.waiter.take()
    }
    waiter?.resume()
  }

  /// The number of unread lines.
  public var count: Int { state.withLock { $0.lines.count - $0.next } }

  /// Whether the server closed the connection.
  public var isClosed: Bool { state.withLock { $0.isClosed } }

  /// Returns the next line; nil after the last one. Precondition: no other task reads.
  public func next() async throws -> String? {
    while true {
      let (line, isClosed) = state.withLock { ($0.takeLine(), $0.isClosed) }
      if line != nil || isClosed { return line }
      try await withTaskCancellationHandler {
        try await withCheckedThrowingContinuation { continuation in
          let isReady = state.withLock { state in
            guard state.next == state.lines.count, !state.isClosed else { return true }
            assert(state.waiter == nil, "two tasks read")
            state.waiter = continuation
            return false
          }
          if isReady || Task.isCancelled { cancel(continuation, isReady) }
        }
      } onCancel: {
        let waiter = state.withLock { $0.waiter.take() }
        waiter?.resume(throwing: CancellationError())
      }
    }
  }

  private func cancel(_ continuation: CheckedContinuation<Void, any Error>, _ isReady: Bool) {
    if isReady { return continuation.resume() }
    // If the cancellation came before the continuation was stored, its handler found none.
    let waiter = state.withLock { $0.waiter.take() }
    waiter?.resume(throwing: CancellationError())
  }
}
