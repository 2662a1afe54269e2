import CanopyAccounts
import CanopyTesting
import NIOCore
import NIOEmbedded
import Testing

@testable import CanopyEvents
@testable import CanopyLineServer

@Suite struct ConnectionAllowanceTests {
  @Test func `the connections of one address are bounded, apart from those of other addresses`() {
    var allowance = ConnectionAllowance(connectionsMax: 10, perNetworkMax: 3)
    let (first, second) = (RemoteNetwork("2001:db8::1"), RemoteNetwork("192.0.2.1"))
    for _ in 0..<3 { #expect(allowance.enter(first) == nil) }
    for _ in 0..<5 { #expect(allowance.enter(RemoteNetwork("2001:db8::2")) == .network) }
    for _ in 0..<3 { #expect(allowance.enter(second) == nil) }
    #expect(allowance.enter(RemoteNetwork("::ffff:192.0.2.1")) == .network)
    allowance.leave(first)
    #expect(allowance.enter(first) == nil)
    #expect(allowance.enter(first) == .network)
    #expect(allowance.count == 6)
  }

  @Test func `connections from this machine count only for the bound on all connections`() {
    var allowance = ConnectionAllowance(connectionsMax: 6, perNetworkMax: 1)
    for text in ["127.0.0.1", "127.0.0.1", "::1", "::1", "local"] {
      #expect(allowance.enter(RemoteNetwork(text)) == nil)
    }
    #expect(allowance.enter(RemoteNetwork("192.0.2.1")) == nil)
    #expect(allowance.enter(RemoteNetwork("127.0.0.1")) == .total)
    #expect(allowance.enter(RemoteNetwork("192.0.2.2")) == .total)
  }

  @Test func `addresses without connections take no memory`() {
    var allowance = ConnectionAllowance(connectionsMax: 1_000, perNetworkMax: 2)
    let networks = (UInt32(1)...100).map { RemoteNetwork.ipv4($0) }
    for network in networks + networks { #expect(allowance.enter(network) == nil) }
    #expect(allowance.networkCount == 100)
    for network in networks + networks { allowance.leave(network) }
    #expect(allowance.networkCount == 0 && allowance.count == 0)
  }
}

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
    #expect(gate.count == 3)
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
