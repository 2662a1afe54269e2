internal import CanopyIdentity
internal import CanopyTree
internal import CanopyWeb

/// The target of a request: the path in parts, and the parameters.
struct Target: Equatable {
  /// A parameter of the query string.
  struct Parameter: Equatable {
    var name: String
    var value: String
  }

  /// The parts of the path between its slashes, without the empty ones.
  var parts: [String] = []
  /// The parameters, in their order.
  var parameters: [Parameter] = []

  /// Reads the target of a request as it was sent: a path, or a whole address.
  ///
  /// - Throws: `TreeError` for an escape that is malformed or not UTF-8.
  init(_ text: String) throws(TreeError) {
    var bytes = Array(text.utf8)[...]
    if bytes.first != UInt8(ascii: "/") { bytes = Target.withoutAuthority(bytes) }
    if let end = bytes.firstIndex(of: UInt8(ascii: "#")) { bytes = bytes[..<end] }
    let question = bytes.firstIndex(of: UInt8(ascii: "?"))
    for part in bytes[..<(question ?? bytes.endIndex)].split(separator: UInt8(ascii: "/")) {
      parts.append(try Target.decoded(part, isForm: false))
    }
    guard let question else { return }
    for pair in bytes[(question + 1)...].split(separator: UInt8(ascii: "&")) {
      let equals = pair.firstIndex(of: UInt8(ascii: "=")) ?? pair.endIndex
      parameters.append(
        Parameter(
          name: try Target.decoded(pair[..<equals], isForm: true),
          value: try Target.decoded(pair[equals...].dropFirst(), isForm: true)))
    }
  }

  /// The name of the namespace; nil for the default one.
  var namespace: String? { self["ns"] }

  /// Returns the value of the last parameter with a name.
  subscript(name: String) -> String? {
    parameters.last { $0.name.hasSameBytes(as: name) }?.value
  }

  /// Returns the bytes after `http://host:port`.
  private static func withoutAuthority(_ bytes: ArraySlice<UInt8>) -> ArraySlice<UInt8> {
    var rest = bytes
    while let slash = rest.firstIndex(of: UInt8(ascii: "/")) {
      let next = rest.index(after: slash)
      guard next < rest.endIndex, rest[next] == UInt8(ascii: "/") else { return rest[slash...] }
      rest = rest[rest.index(after: next)...]
    }
    return []
  }

  /// Returns the text of escaped bytes.
  ///
  /// - Parameter isForm: whether a plus sign stands for a space.
  private static func decoded(_ bytes: ArraySlice<UInt8>, isForm: Bool) throws(TreeError) -> String
  {
    var result: [UInt8] = []
    result.reserveCapacity(bytes.count)
    var index = bytes.startIndex
    while index < bytes.endIndex {
      let byte = bytes[index]
      index += 1
      switch byte {
      case UInt8(ascii: "+") where isForm: result.append(UInt8(ascii: " "))
      case UInt8(ascii: "%"):
        guard index + 1 < bytes.endIndex, let high = hexDigit(bytes[index]),
          let low = hexDigit(bytes[index + 1])
        else {
          throw .invalidPath(
            "the address has a % without two hexadecimal digits; write %25 for a %")
        }
        result.append(high << 4 | low)
        index += 2
      default: result.append(byte)
      }
    }
    guard let text = String(validating: result, as: UTF8.self) else {
      throw .invalidPath("the address has escapes that are not UTF-8")
    }
    return text
  }

  private static func hexDigit(_ byte: UInt8) -> UInt8? {
    switch byte {
    case UInt8(ascii: "0")...UInt8(ascii: "9"): byte - UInt8(ascii: "0")
    case UInt8(ascii: "a")...UInt8(ascii: "f"): byte - UInt8(ascii: "a") + 10
    case UInt8(ascii: "A")...UInt8(ascii: "F"): byte - UInt8(ascii: "A") + 10
    default: nil
    }
  }
}

extension Target {
  /// The resources of the HTTP port.
  enum Resource: Equatable {
    /// A location of the tree.
    case tree(Location)
    /// The security rules.
    case rules
    /// Whether the server works.
    case health
    /// The numbers that describe the state of the server.
    case metrics
    /// The realtime protocol over a WebSocket.
    case realtime
    /// The line protocol over a WebSocket.
    case line
    /// The transport of the realtime protocol without a WebSocket, which the server does not have.
    case longPolling
    /// A request of Firebase's Auth clients.
    case identity
    /// A file of the web pages.
    case page(WebFile)
  }

  /// Finds the resource.
  ///
  /// - Returns: nil if there is none.
  /// - Throws: `TreeError` for a path with an invalid key.
  func resource() throws(TreeError) -> Resource? {
    let suffix = ".json"
    guard var last = parts.last, last.hasByteSuffix(suffix) else { return resourceOutsideTree }
    last = String(decoding: last.utf8.dropLast(suffix.utf8.count), as: UTF8.self)
    var names = parts.dropLast() + (last.isEmpty ? [] : [last])
    if names == [".settings", "rules"] { return .rules }
    if names == [".well-known", "jwks"] { return .identity }
    let isPriority = names.last == ".priority"
    if isPriority { names.removeLast() }
    var keys: [Key] = []
    for name in names {
      // Stops at the first key too many: the address may have thousands.
      guard keys.count <= Limits.depthMax else { break }
      do throws(TreeError) { keys.append(try Key(name)) } catch {
        throw .invalidPath("the path is not valid: \(error.sentence)")
      }
    }
    return .tree(Location(try Path(keys), isPriority: isPriority))
  }

  /// The resource whose path does not end in `.json`; nil if there is none.
  private var resourceOutsideTree: Resource? {
    switch parts {
    case ["health"]: .health
    case ["metrics"]: .metrics
    case [".ws"]: .realtime
    case ["line"]: .line
    case [".lp"]: .longPolling
    default:
      IdentityService.isIdentityPath(path) ? .identity : WebPages.file(at: parts).map(Resource.page)
    }
  }

  /// The path, decoded.
  var path: String { "/" + parts.joined(separator: "/") }
}
