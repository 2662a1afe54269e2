import CanopyAccounts
import CanopyTesting
import NIOCore
import NIOEmbedded
import Testing

@testable import CanopyEvents
@testable import CanopyLineServer

@Suite(.timeLimit(.minutes(20))) struct ConnectionGateTests {
  private func channel(from address: String) async throws -> NIOAsyncTestingChannel {
    let channel = NIOAsyncTestingChannel()
    try await channel.connect(to: try SocketAddress(ipAddress: address, port: 1)).get()
    channel.remoteAddress = try SocketAddress(ipAddress: address, port: 1)
    return channel
  }

  @Test func `one address cannot hold all connections`() async throws {
    let gate = ConnectionGate(connectionsMax: 4, perNetworkMax: 2)
    let greedy = [
      try await channel(from: "2001:db8::1"), try await channel(from: "2001:db8::2"),
    ]
    for channel in greedy { #expect(gate.enter(channel)) }
    let third = try await channel(from: "2001:db8::3")
    #expect(!gate.enter(third))
    let line = try #require(try await third.readOutbound(as: ByteBuffer.self))
    #expect(
      String(buffer: line)
        == "-OVERLOADED your network address has as many connections as one address may have; close "
        + "some first\r\n")
    try await third.closeFuture.get()
    let honest = try await channel(from: "2001:db8:0:1::1")
    #expect(gate.enter(honest))
    #expect(gate.count == 3 && gate.endedCount == 0)
    for channel in greedy { try await channel.close().get() }
    await greedy[0].testingEventLoop.run()
    await greedy[1].testingEventLoop.run()
    #expect(gate.count == 1)
    let fourth = try await channel(from: "2001:db8::4")
    #expect(gate.enter(fourth))
    gate.closeAll()
    for channel in [honest, fourth] { try await channel.closeFuture.get() }
  }
}
