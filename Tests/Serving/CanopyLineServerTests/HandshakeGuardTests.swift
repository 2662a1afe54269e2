import CanopySession
import NIOCore
import NIOEmbedded
import NIOTLS
import Testing

@testable import CanopyEvents

/// The time for the handshake of TLS.
struct HandshakeGuardTests {
  private func connect(_ budget: MemoryBudget) throws -> EmbeddedChannel {
    let channel = EmbeddedChannel(handler: HandshakeGuard(budget, seconds: 10))
    try channel.connect(to: SocketAddress(ipAddress: "127.0.0.1", port: 1)).wait()
    return channel
  }

  @Test func `a handshake that does not end in time is cut off, and no longer charged`() throws {
    let budget = MemoryBudget(bytesMax: 1024 * 1024)
    let channel = try connect(budget)
    #expect(budget.used == TLSCertificate.handshakeBytes)
    channel.embeddedEventLoop.advanceTime(by: .milliseconds(9_999))
    #expect(channel.isActive)
    channel.embeddedEventLoop.advanceTime(by: .milliseconds(1))
    #expect(!channel.isActive && budget.used == 0)
  }

  @Test func `a connection that is cut off does not wait for the end of TLS`() throws {
    let loop = EmbeddedEventLoop()
    let channel = EmbeddedChannel(
      handlers: [CutOffClose(), SlowClose()], loop: loop)
    try channel.connect(to: SocketAddress(ipAddress: "127.0.0.1", port: 1)).wait()
    channel.close(promise: nil)
    #expect(channel.isActive)
    channel.cutOff()
    #expect(!channel.isActive)
  }

  @Test func `a connection stays open after its handshake`() throws {
    let budget = MemoryBudget(bytesMax: 1024 * 1024)
    let channel = try connect(budget)
    #expect(budget.used == TLSCertificate.handshakeBytes)
    channel.pipeline.fireUserInboundEventTriggered(
      TLSUserEvent.handshakeCompleted(negotiatedProtocol: nil))
    channel.embeddedEventLoop.advanceTime(by: .hours(1))
    #expect(channel.isActive && budget.used == TLSCertificate.connectionBytes)
    try channel.close().wait()
    #expect(budget.used == 0)
  }
}

/// Waits for the client before it closes, as TLS does.
private final class SlowClose: ChannelOutboundHandler {
  typealias OutboundIn = ByteBuffer

  func close(context: ChannelHandlerContext, mode: CloseMode, promise: EventLoopPromise<Void>?) {}
}
