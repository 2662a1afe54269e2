import NIOCore
import NIOEmbedded
import Testing

@testable import CanopyEvents
@testable import CanopySession

/// The memory of TLS.
struct HandshakeGuardTests {
  @Test func `a connection that is cut off for its memory does not end within a report`() throws {
    let budget = MemoryBudget(bytesMax: 1024 * 1024)
    let channel = EmbeddedChannel(handler: HandshakeGuard(budget, seconds: 60))
    try channel.connect(to: SocketAddress(ipAddress: "127.0.0.1", port: 1)).wait()
    let others = budget.charge(budget.bytesMax - TLSCertificate.connectionBytes)
    // The share of TLS is the largest. The share that reports may be of the same connection.
    var share = budget.open {}
    share.report(MemoryBudget.largeBytes - 1)
    #expect(channel.isActive, "the loop has not run")
    channel.embeddedEventLoop.run()
    #expect(!channel.isActive)
    withExtendedLifetime(others) {}
  }
}
