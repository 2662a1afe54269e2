internal import CanopyIdentity
package import CanopyTree
package import CanopyWeb

/// The target of a request: the path in parts, and the parameters.
package struct Target: Equatable {
  /// A parameter of the query string.
  package struct Parameter: Equatable {
    var name: String
    var value: String
  }

  /// The parts of the path between its slashes, without the empty ones. Those between the first ones and the last one are
  /// missing if there are more than `partsMax`: the path is too deep for the tree.
  var parts: [String] = []
  /// The parameters, in their order.
  var parameters: [Parameter] = []

  /// The most parts of a path that are read: one more than the deepest location with `.priority` and `.json` has.
  static let partsMax = Limits.depthMax + 3
  /// The most parameters of a target.
  static let parametersMax = 64

  /// Reads the target of a request as it was sent: a path, or a whole address.
  ///
  /// A target may have thousands of parts and parameters, so it is not split before they are bounded.
  ///
  /// - Throws: `TreeError` for an escape that is malformed or not UTF-8, and for too many parameters.
  package init(_ text: String) throws(TreeError) {
    var bytes = Array(text.utf8)[...]
    if bytes.first != UInt8(ascii: "/") { bytes = Target.withoutAuthority(bytes) }
    if let end = bytes.firstIndex(of: UInt8(ascii: "#")) { bytes = bytes[..<end] }
    let question = bytes.firstIndex(of: UInt8(ascii: "?"))
    var path = bytes[..<(question ?? bytes.endIndex)]
    while parts.count < Target.partsMax - 1, let part = Target.next(UInt8(ascii: "/"), &path) {
      parts.append(try Target.decoded(part, isForm: false))
    }
    if let part = Target.last(UInt8(ascii: "/"), path) {
      parts.append(try Target.decoded(part, isForm: false))
    }
    guard let question else { return }
    var query = bytes[(question + 1)...]
    while let pair = Target.next(UInt8(ascii: "&"), &query) {
      guard parameters.count < Target.parametersMax else {
        throw .invalidPath("an address may have at most \(Target.parametersMax) parameters")
      }
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

  /// Removes and returns the bytes before the next separator, unless they are empty; nil at the end.
  private static func next(_ separator: UInt8, _ rest: inout ArraySlice<UInt8>) -> ArraySlice<
    UInt8
  >? {
    guard let start = rest.firstIndex(where: { $0 != separator }) else { return nil }
    let end = rest[start...].firstIndex(of: separator) ?? rest.endIndex
    defer { rest = rest[end...] }
    return rest[start..<end]
  }

  /// Returns the bytes after the last separator, unless they are empty; nil if there are only separators.
  private static func last(_ separator: UInt8, _ bytes: ArraySlice<UInt8>) -> ArraySlice<UInt8>? {
    guard let last = bytes.lastIndex(where: { $0 != separator }) else { return nil }
    let start = bytes[...last].lastIndex(of: separator).map { $0 + 1 } ?? bytes.startIndex
    return bytes[start...last]
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
  package enum Resource: Equatable {
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
  package func resource() throws(TreeError) -> Resource? {
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
      // Stops at the first key too many.
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
