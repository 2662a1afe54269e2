import NIOCore
import NIOEmbedded
import Synchronization
import Testing

@testable import CanopyEvents
@testable import CanopySession

/// The memory of a connection that several parts of its pipeline report.
struct MemoryShareTests {
  private final class Ended: Sendable {
    let count = Mutex(0)
  }

  @Test func `a connection that holds too much does not end within the report of another part`() {
    let budget = MemoryBudget(bytesMax: 1024 * 1024)
    let loop = EmbeddedEventLoop()
    let ended = Ended()
    var first = budget.open(on: loop, network: nil) { ended.count.withLock { $0 += 1 } }
    var second = budget.open(on: loop, network: nil) {}
    first.report(budget.bytesMax)
    second.report(MemoryBudget.reportBytes)
    #expect(ended.count.withLock { $0 } == 0, "the loop has not run")
    loop.run()
    #expect(ended.count.withLock { $0 } == 1)
  }
}
