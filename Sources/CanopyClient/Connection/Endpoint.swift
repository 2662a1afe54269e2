internal import CanopyTree

/// Where a server is: `canopy://host:port`, or `canopys://host:port` with TLS.
struct Endpoint: Hashable, Sendable {
  var host: String
  var port: Int
  var usesTLS: Bool

  static let portDefault = 7070

  /// The text of the server, as a URL without a path.
  var text: String {
    let host = host.contains(":") ? "[\(host)]" : host
    return "\(usesTLS ? "canopys" : "canopy")://\(host):\(port)"
  }

  /// Reads a URL, which may have a path.
  ///
  /// - Returns: the server, and the path as it is written.
  /// - Throws: `DatabaseError` of the code `invalidURL`.
  static func parse(_ url: String) throws(DatabaseError) -> (endpoint: Endpoint, path: String) {
    guard let separator = url.range(of: "://") else { throw invalid(url) }
    let scheme = url[..<separator.lowerBound].lowercased()
    guard scheme == "canopy" || scheme == "canopys" else { throw invalid(url) }
    let rest = url[separator.upperBound...]
    let authority = rest.prefix { $0 != "/" }
    let path = String(rest.dropFirst(authority.count))
    guard !authority.contains("@"), !authority.contains("?"), !authority.contains("#"),
      !path.contains("?")
    else { throw invalid(url) }
    var host = authority
    var port: Substring?
    if authority.hasPrefix("[") {
      guard let close = authority.firstIndex(of: "]") else { throw invalid(url) }
      host = authority[authority.index(after: authority.startIndex)..<close]
      let after = authority[authority.index(after: close)...]
      guard after.isEmpty || after.hasPrefix(":") else { throw invalid(url) }
      port = after.isEmpty ? nil : after.dropFirst()
    } else if let colon = authority.firstIndex(of: ":") {
      host = authority[..<colon]
      port = authority[authority.index(after: colon)...]
    }
    let number = port.map { Int($0) ?? 0 } ?? portDefault
    let isName = !host.unicodeScalars.contains {
      $0.properties.isWhitespace || $0.properties.generalCategory == .control
    }
    guard !host.isEmpty, isName, 1...65_535 ~= number else { throw invalid(url) }
    return (Endpoint(host: String(host), port: number, usesTLS: scheme == "canopys"), path)
  }

  /// Reads the URL of a server as a whole.
  ///
  /// - Throws: `DatabaseError` of the code `invalidURL`, also where it is the URL of a location.
  static func server(_ url: String) throws(DatabaseError) -> Endpoint {
    let (endpoint, path) = try parse(url)
    guard path.allSatisfy({ $0 == "/" }) else {
      throw DatabaseError(
        .invalidURL,
        "the URL of a database has no path; \(url.prefix(200)) is for reference(fromURL:)")
    }
    return endpoint
  }

  private static func invalid(_ url: String) -> DatabaseError {
    DatabaseError(
      .invalidURL,
      "the URL of a database is canopy://host:port, or canopys://host:port with TLS; \(url.prefix(200)) "
        + "is not")
  }
}
