internal import CanopyTree
internal import NIOCore
internal import NIOHTTP1
internal import NIOPosix
internal import NIOSSL

/// The reasons why a connection cannot be opened, as sentences for the log and for errors.
extension Endpoint {
  /// The host and the port, also a port that a URL may leave out.
  var place: String { "\(bracketedHost):\(port)" }

  /// Returns the reason for a failure of the network, TLS or HTTP, without a full stop.
  func reason(of error: any Error) -> String {
    switch error {
    case let error as NIOConnectionError: return reason(of: error)
    case ChannelError.connectTimeout(let time):
      return "\(place) did not answer within \(time.nanoseconds / 1_000_000) ms"
    case let error as IOError: return reason(of: error)
    case is HTTPParserError:
      return "\(place) does not speak HTTP; if it is a line port, begin the URL with canopy://"
    case is NIOSSLError, is NIOSSLExtraError, is BoringSSLError: return tlsReason("\(error)")
    default: return "\(error)"
    }
  }

  /// The reason for a connection that the server ended before it answered.
  var closedReason: String {
    "\(place) closed the connection before it answered; check that the port speaks the protocol of \(scheme)://"
  }

  private func reason(of error: NIOConnectionError) -> String {
    guard let last = error.connectionErrors.last else {
      return "the host \(host) has no address; check the URL, and the name server of this machine"
    }
    return reason(of: last.error)
  }

  private func reason(of error: IOError) -> String {
    switch error.errnoCode {
    case ECONNREFUSED: "connection refused by \(place); check that the server runs"
    case ECONNRESET, EPIPE: "\(place) broke the connection"
    case EHOSTUNREACH, ENETUNREACH: "no route to \(place)"
    case ETIMEDOUT: "\(place) did not answer in time"
    default: "\(place): \(error)"
    }
  }

  private func tlsReason(_ text: String) -> String {
    if text.utf8.contains("CERTIFICATE_VERIFY_FAILED".utf8) {
      return
        "the certificate of \(place) is not trusted; CANOPY_CA_FILE names a file of certificates to trust"
    }
    if text.utf8.contains("ailedToValidateHostname".utf8) {
      return "the certificate of \(place) is that of another host"
    }
    let plain = isRealtime ? "http" : "canopy"
    return "no TLS with \(place); if the port has no TLS, begin the URL with \(plain)://"
  }
}
