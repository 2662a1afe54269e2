internal import CanopyTree

/// The address of a server.
///
/// - `canopy://host:port`, or `canopys://host:port` with TLS: the line protocol.
/// - `http://host:port`, or `https://host` with TLS: the realtime protocol over a WebSocket. `?ns=NAME` names one of the
///   databases of the server; so does the first part of a host such as `NAME.example.com`.
package struct Endpoint: Hashable, Sendable {
  /// The protocol of the connection.
  package enum Kind: Hashable, Sendable {
    case line
    /// The realtime protocol.
    ///
    /// - namespace: the name of the database; nil for the server's default.
    /// - isInHost: whether the host names the database.
    case realtime(namespace: String?, isInHost: Bool)
  }

  package var host: String
  package var port: Int
  package var usesTLS: Bool
  package var kind = Kind.line

  static let portDefault = 7070

  /// Whether the connection speaks the realtime protocol.
  var isRealtime: Bool { kind != .line }

  /// The name of the database; nil for the server's default.
  var namespace: String? {
    if case .realtime(let name, _) = kind { name } else { nil }
  }

  var scheme: String {
    switch kind {
    case .line: usesTLS ? "canopys" : "canopy"
    case .realtime: usesTLS ? "https" : "http"
    }
  }

  private var defaultPort: Int {
    switch kind {
    case .line: Endpoint.portDefault
    case .realtime: usesTLS ? 443 : 80
    }
  }

  var bracketedHost: String {
    host.utf8.contains(UInt8(ascii: ":")) ? "[\(host)]" : host
  }

  /// The URL of the server, without a path or a query.
  package var text: String { "\(scheme)://\(authority)" }

  /// The host and the port. The line protocol's always has a port.
  var authority: String {
    isRealtime && port == defaultPort ? bracketedHost : "\(bracketedHost):\(port)"
  }

  /// The query that a URL needs for the database: `?ns=NAME` or nothing.
  package var querySuffix: String {
    if case .realtime(let name?, isInHost: false) = kind { "?ns=\(name)" } else { "" }
  }

  /// The same database without TLS, whose URL names it with `ns`.
  var withoutTLS: Endpoint {
    var endpoint = self
    endpoint.usesTLS = false
    if case .realtime(let name, _) = kind {
      endpoint.kind = .realtime(namespace: name, isInHost: false)
    }
    return endpoint
  }

  /// Returns the target of the HTTP request for a WebSocket.
  ///
  /// - Parameter lastSession: the ID of the last connection, which the server is to end; nil if there was none.
  func realtimeTarget(lastSession: String?) -> String {
    "/.ws?v=5" + (namespace.map { "&ns=\($0)" } ?? "")
      + (lastSession.map { "&ls=\($0)" } ?? "")
  }

  /// The name of the folder with the data of this database.
  package var folderName: String {
    guard isRealtime else { return "\(host)_\(port)" }
    return "http_\(host)_\(port)" + (namespace.map { "_\($0)" } ?? "")
  }

  /// Returns the endpoint at a host to which the server sent the client, with the same database; nil if the text is
  /// not a host.
  package func redirected(to host: String) -> Endpoint? {
    guard !host.utf8.contains(UInt8(ascii: "?")),
      let (other, path) = try? Endpoint.parse("\(scheme)://\(host)"), path.isEmpty
    else { return nil }
    var endpoint = self
    endpoint.host = other.host
    endpoint.port = other.port
    return endpoint
  }

  /// Parses a URL, which may have a path.
  ///
  /// - Returns: the server, and the path as written.
  /// - Throws: `DatabaseError` with the code `invalidURL`.
  package static func parse(_ url: String) throws(DatabaseError) -> (
    endpoint: Endpoint, path: String
  ) {
    guard let separator = url.utf8.firstRange(of: "://".utf8) else { throw invalid(url) }
    let scheme = String(url[..<separator.lowerBound]).asciiLowercased
    guard ["canopy", "canopys", "http", "https"].contains(scheme) else { throw invalid(url) }
    let isRealtime = scheme.utf8.starts(with: "http".utf8)
    let rest = url.utf8[separator.upperBound...]
    let authority = rest.prefix { $0 != UInt8(ascii: "/") && $0 != UInt8(ascii: "?") }
    let pathAndQuery = rest.dropFirst(authority.count)
    let path = pathAndQuery.prefix { $0 != UInt8(ascii: "?") }
    let query = pathAndQuery.dropFirst(path.count)
    guard !authority.contains(where: { "@#".utf8.contains($0) }), isRealtime || query.isEmpty
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
    let name = String(Substring(host))
    let isName = !name.unicodeScalars.contains {
      $0.properties.isWhitespace || $0.properties.generalCategory == .control
    }
    var endpoint = Endpoint(host: name, port: 0, usesTLS: scheme.utf8.last == UInt8(ascii: "s"))
    if isRealtime {
      endpoint.kind = try kind(host: name, query: String(Substring(query.dropFirst())), of: url)
    }
    let number = port.map { Int(Substring($0)) ?? 0 } ?? endpoint.defaultPort
    guard !name.isEmpty, isName, 1...65_535 ~= number else { throw invalid(url) }
    endpoint.port = number
    return (endpoint, String(Substring(path)))
  }

  /// Finds the name of the database in the query of a URL, or else in its host.
  private static func kind(
    host: String, query: String, of url: String
  ) throws(DatabaseError) -> Kind {
    for part in query.utf8.split(separator: UInt8(ascii: "&")) where part.starts(with: "ns=".utf8) {
      let name = String(Substring(part.dropFirst(3)))
      guard isNamespace(name) else { throw invalid(url) }
      return .realtime(namespace: name, isInHost: false)
    }
    let labels = host.utf8.split(separator: UInt8(ascii: "."), omittingEmptySubsequences: false)
    let isAddress =
      host.utf8.contains(UInt8(ascii: ":"))
      || labels.allSatisfy { Int(Substring($0)) != nil }
    guard labels.count > 2, !isAddress, let first = labels.first else {
      return .realtime(namespace: nil, isInHost: false)
    }
    let name = String(Substring(first)).asciiLowercased
    guard isNamespace(name) else { throw invalid(url) }
    return .realtime(namespace: name, isInHost: true)
  }

  /// Whether a name can stand in a URL unchanged.
  private static func isNamespace(_ name: String) -> Bool {
    !name.isEmpty
      && name.utf8.allSatisfy { byte in
        switch byte {
        case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
          UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "-"), UInt8(ascii: "_"),
          UInt8(ascii: "."), UInt8(ascii: ":"):
          true
        default: false
        }
      }
  }

  /// Parses the URL of a server without a path.
  ///
  /// - Throws: `DatabaseError` with the code `invalidURL`, also for the URL of a location.
  static func server(_ url: String) throws(DatabaseError) -> Endpoint {
    let (endpoint, path) = try parse(url)
    guard path.utf8.allSatisfy({ $0 == UInt8(ascii: "/") }) else {
      throw DatabaseError(
        .invalidURL,
        "the URL of a database has no path; \(shown(url)) is for reference(fromURL:)"
      )
    }
    return endpoint
  }

  private static func invalid(_ url: String) -> DatabaseError {
    DatabaseError(
      .invalidURL,
      "the URL of a database is canopy://host:port or http://host:port?ns=NAME, with TLS canopys:// or https://; "
        + "\(shown(url)) is not")
  }

  /// Returns the beginning of a URL in quotation marks, with control characters escaped.
  private static func shown(_ url: String) -> String {
    String(url.unicodeScalars.prefix(200)).debugDescription
  }
}
