#if canImport(Glibc)
  import Glibc
#elseif canImport(Musl)
  import Musl
#endif

/// The part of a remote address to which limits apply: a whole IPv4 address, or the first 64 bits of an IPv6 address.
///
///     RemoteNetwork("2001:db8::1") == RemoteNetwork("2001:db8::2")        // one /64
///     RemoteNetwork("::ffff:192.0.2.1") == RemoteNetwork("192.0.2.1")     // IPv4-mapped
///
/// A /64 is the smallest block that a provider gives to a customer. A limit for each full IPv6 address would have no
/// effect, because one machine has 2^64 of them.
public enum RemoteNetwork: Hashable, Sendable {
  /// An IPv4 address, first byte highest.
  case ipv4(UInt32)
  /// The first 64 bits of an IPv6 address.
  case ipv6(prefix: UInt64)
  /// `::1`, the loopback address of IPv6.
  case ipv6Loopback
  /// The same machine without an IP address: a Unix socket, or a command that uses the data folder.
  case local
  /// This machine, for the requests of web pages of foreign sites, which a person on it has open.
  case foreignPage

  /// Creates the network of an address from its text, with or without a zone (`fe80::1%eth0`). Text that is not an IP
  /// address gives ``local``. O(length).
  public init(_ text: String) {
    let address = String(decoding: text.utf8.prefix { $0 != UInt8(ascii: "%") }, as: UTF8.self)
    var ipv4 = in_addr()
    if inet_pton(AF_INET, address, &ipv4) == 1 {
      self = .ipv4(UInt32(bigEndian: ipv4.s_addr))
      return
    }
    var ipv6 = in6_addr()
    guard inet_pton(AF_INET6, address, &ipv6) == 1 else {
      self = .local
      return
    }
    self.init(ipv6: withUnsafeBytes(of: ipv6) { Array($0) })
  }

  /// Creates the network of an IPv6 address of 16 bytes.
  private init(ipv6 bytes: [UInt8]) {
    func number(_ range: Range<Int>) -> UInt64 {
      bytes[range].reduce(0) { $0 << 8 | UInt64($1) }
    }
    let prefix = number(0..<8)
    let isMapped = prefix == 0 && number(8..<12) == 0xFFFF
    if isMapped {
      self = .ipv4(UInt32(truncatingIfNeeded: number(12..<16)))
    } else if prefix == 0 && number(8..<16) == 1 {
      self = .ipv6Loopback
    } else {
      self = .ipv6(prefix: prefix)
    }
  }

  /// The network as bytes, which are unique for each network.
  var bytes: [UInt8] {
    func bytes(_ number: some FixedWidthInteger) -> [UInt8] {
      withUnsafeBytes(of: number.bigEndian) { Array($0) }
    }
    return switch self {
    case .ipv4(let address): [0] + bytes(address)
    case .ipv6(let prefix): [1] + bytes(prefix)
    case .ipv6Loopback: [2]
    case .local: [3]
    case .foreignPage: [4]
    }
  }

  /// The wider network that one operator usually has: the first 16 bits of an IPv4 address, or 48 of an IPv6 address.
  var wide: RemoteNetwork {
    switch self {
    case .ipv4(let address): .ipv4((address >> 16) << 16)
    case .ipv6(let prefix): .ipv6(prefix: (prefix >> 16) << 16)
    case .ipv6Loopback, .local, .foreignPage: self
    }
  }

  /// Whether the other end is on this machine: `127.0.0.0/8`, `::1` or no IP address.
  public var isThisMachine: Bool {
    switch self {
    case .ipv4(let address): address >> 24 == 127
    case .ipv6, .foreignPage: false
    case .ipv6Loopback, .local: true
    }
  }
}
