internal import CanopyTree

/// The address of a server: `canopy://host:port`, or `canopys://host:port` with TLS.
struct Endpoint: Hashable, Sendable {
  var host: String
  var port: Int
  var usesTLS: Bool

  static let portDefault = 7070

  /// The URL of the server, without a path.
  var text: String {
    let host = host.utf8.contains(UInt8(ascii: ":")) ? "[\(host)]" : host
    return "\(usesTLS ? "canopys" : "canopy")://\(host):\(port)"
  }

  /// Parses a URL, which may have a path.
  ///
  /// - Returns: the server, and the path as written.
  /// - Throws: `DatabaseError` with the code `invalidURL`.
  static func parse(_ url: String) throws(DatabaseError) -> (endpoint: Endpoint, path: String) {
    guard let separator = url.utf8.firstRange(of: "://".utf8) else { throw invalid(url) }
    let scheme = String(url[..<separator.lowerBound]).asciiLowercased
    guard scheme == "canopy" || scheme == "canopys" else { throw invalid(url) }
    let rest = url.utf8[separator.upperBound...]
    let authority = rest.prefix { $0 != UInt8(ascii: "/") }
    let path = rest.dropFirst(authority.count)
    guard !authority.contains(where: { "@?#".utf8.contains($0) }),
      !path.contains(UInt8(ascii: "?"))
    else { throw invalid(url) }
    var host = authority
    var port: Substring.UTF8View?
    if authority.first == UInt8(ascii: "[") {
      guard let close = authority.firstIndex(of: UInt8(ascii: "]")) else { throw invalid(url) }
      host = authority[..<close].dropFirst()
      let after = authority[close...].dropFirst()
      guard after.isEmpty || after.first == UInt8(ascii: ":") else { throw invalid(url) }
      port = after.isEmpty ? nil : after.dropFirst()
    } else if let colon = authority.firstIndex(of: UInt8(ascii: ":")) {
      host = authority[..<colon]
      port = authority[colon...].dropFirst()
    }
    let number = port.map { Int(Substring($0)) ?? 0 } ?? portDefault
    let name = String(Substring(host))
    let isName = !name.unicodeScalars.contains {
      $0.properties.isWhitespace || $0.properties.generalCategory == .control
    }
    guard !name.isEmpty, isName, 1...65_535 ~= number else { throw invalid(url) }
    let endpoint = Endpoint(host: name, port: number, usesTLS: scheme == "canopys")
    return (endpoint, String(Substring(path)))
  }

  /// Parses the URL of a server without a path.
  ///
  /// - Throws: `DatabaseError` with the code `invalidURL`, also for the URL of a location.
  static func server(_ url: String) throws(DatabaseError) -> Endpoint {
    let (endpoint, path) = try parse(url)
    guard path.utf8.allSatisfy({ $0 == UInt8(ascii: "/") }) else {
      throw DatabaseError(
        .invalidURL,
        "the URL of a database has no path; \(url.unicodeScalars.prefix(200)) is for reference(fromURL:)"
      )
    }
    return endpoint
  }

  private static func invalid(_ url: String) -> DatabaseError {
    DatabaseError(
      .invalidURL,
      "the URL of a database is canopy://host:port, or canopys://host:port with TLS; \(url.unicodeScalars.prefix(200)) "
        + "is not")
  }
}
