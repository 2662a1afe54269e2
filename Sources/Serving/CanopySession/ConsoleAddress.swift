internal import Synchronization

/// The address of the console of a server. It is known when the HTTP port is open. Safe to use from any thread.
public final class ConsoleAddress: Sendable {
  private let address = Mutex<String?>(nil)

  init() {}

  /// The address, such as `http://127.0.0.1:9000`; nil if the server has no HTTP port, or has not opened it yet.
  public var text: String? { address.withLock { $0 } }

  /// Sets the address, as a browser on this machine reaches it.
  ///
  /// - Parameters:
  ///   - host: the address at which the port listens.
  ///   - hasTLS: whether the port speaks TLS.
  public func set(host: String, port: Int, hasTLS: Bool) {
    let host =
      switch host {
      case "0.0.0.0": "127.0.0.1"
      case "::": "::1"
      default: host
      }
    address.withLock {
      $0 = "\(hasTLS ? "https" : "http")://\(ConsoleAddress.text(host, port))"
    }
  }

  /// Returns a host and a port as one text. An address of IPv6 has brackets, because it contains colons.
  public static func text(_ host: String, _ port: Int) -> String {
    host.utf8.contains(UInt8(ascii: ":")) ? "[\(host)]:\(port)" : "\(host):\(port)"
  }
}
