import CanopyAccounts
import Testing

@Suite struct RemoteNetworkTests {
  @Test func `an IPv4 address counts as a whole, in either form`() {
    #expect(RemoteNetwork("192.0.2.1") == .ipv4(0xC000_0201))
    #expect(RemoteNetwork("::ffff:192.0.2.1") == .ipv4(0xC000_0201))
    #expect(RemoteNetwork("::ffff:c000:201") == .ipv4(0xC000_0201))
    #expect(RemoteNetwork("192.0.2.1") != RemoteNetwork("192.0.2.2"))
    #expect(RemoteNetwork("255.255.255.255") == .ipv4(.max))
  }

  @Test func `an IPv6 address counts by its first 64 bits`() {
    let first = RemoteNetwork("2001:db8:1:2::")
    #expect(first == .ipv6(prefix: 0x2001_0DB8_0001_0002))
    #expect(RemoteNetwork("2001:DB8:1:2:ffff:ffff:ffff:ffff") == first)
    #expect(RemoteNetwork("2001:db8:1:3::") != first)
    #expect(RemoteNetwork("fe80::1%eth0") == RemoteNetwork("fe80::2"))
    #expect(RemoteNetwork("::2") == .ipv6(prefix: 0), "neither mapped nor loopback")
    #expect(RemoteNetwork("::fffe:192.0.2.1") == .ipv6(prefix: 0))
  }

  @Test(arguments: ["", "local", "/run/canopy.sock", "192.0.2", "192.0.2.256", "1::2::3", "::g"])
  func `text that is not an address counts as this machine`(_ text: String) {
    #expect(RemoteNetwork(text) == .local)
  }

  @Test func `loopback addresses count as this machine, and others do not`() {
    for text in ["127.0.0.1", "127.255.255.255", "::ffff:127.0.0.1", "::1", "local"] {
      #expect(RemoteNetwork(text).isThisMachine, "\(text)")
    }
    for text in ["126.255.255.255", "128.0.0.1", "192.0.2.1", "::2", "::", "fe80::1"] {
      #expect(!RemoteNetwork(text).isThisMachine, "\(text)")
    }
    #expect(!RemoteNetwork.foreignPage.isThisMachine)
    #expect(RemoteNetwork("127.0.0.1") != RemoteNetwork("127.0.0.2"))
  }
}
