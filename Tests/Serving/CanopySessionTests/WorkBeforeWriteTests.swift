import CanopyEngine
import CanopyTesting
import CanopyTree
import CanopyWire
import Synchronization
import Testing

@testable import CanopySession

/// The work for a write before the writer gets it.
@Suite(.timeLimit(.minutes(20))) struct WorkBeforeWriteTests {
  @Test func `a write is submitted before the work is cancelled, or never`() throws {
    let work = WorkBeforeWrite()
    let submitted = Mutex(0)
    try work.submitUnlessCancelled { submitted.withLock { $0 += 1 } }
    #expect(submitted.withLock { $0 } == 1)
    work.cancel()
    #expect(throws: CancellationError.self) {
      try work.submitUnlessCancelled { submitted.withLock { $0 += 1 } }
    }
    #expect(submitted.withLock { $0 } == 1)
  }

  /// Cancels work in the next turn of a queue, when the work of the turn has not begun.
  private final class CancellingClock: Sendable {
    private struct Next {
      let queue: TurnQueue
      let turns: Int
      let work: WorkBeforeWrite
    }

    private let next = Mutex<Next?>(nil)

    func cancel(_ work: WorkBeforeWrite, inNextTurnOf queue: TurnQueue) {
      next.withLock { $0 = Next(queue: queue, turns: queue.turns + 1, work: work) }
    }

    func look() -> Duration {
      let due: Next? = next.withLock { next in
        guard let found = next, found.queue.turns == found.turns else { return nil }
        next = nil
        return found
      }
      due?.work.cancel()
      return .zero
    }
  }

  @Test(arguments: [false, true])
  func `a large write whose request is cancelled in its turn overwrites no later one`(
    isCancelled: Bool
  ) async throws {
    let clock = CancellingClock()
    var configuration = Engine.Configuration.forTests
    configuration.elapsed = { clock.look() }
    let parts = try await LineParts(engine: configuration)
    let operations = parts.operations
    let running = Task { await parts.run() }
    func write(_ write: TreeWrite, after work: WorkBeforeWrite? = nil) async -> WireError.Code? {
      let reply = await withCheckedContinuation { continuation in
        operations.write(
          .tree(write), as: .administrator, from: "192.0.2.1", after: work
        ) { continuation.resume(returning: $0) }
      }
      if case .failure(let error) = reply { return error.code }
      return nil
    }
    let text = Node(String(repeating: "x", count: Operations.bytesEncodedAtOnceMax))
    let location = try Location("a")
    #expect(await write(.set(location, WriteValue(1))) == nil)
    let etag = parts.engine.root.child("a").etag
    let writes: [TreeWrite] = [
      .set(location, WriteValue(text)), .compareAndSet(location, etag: etag, WriteValue(text)),
    ]
    for large in writes {
      #expect(await write(.set(location, WriteValue(1))) == nil)
      let work = WorkBeforeWrite()
      if isCancelled { clock.cancel(work, inNextTurnOf: operations.longWork) }
      let code = await write(large, after: work)
      #expect(code == (isCancelled ? WireError.cancelled.code : nil))
      #expect(parts.engine.root.child("a") == (isCancelled ? 1 : text))
    }
    parts.engine.stop()
    await running.value
  }
}
