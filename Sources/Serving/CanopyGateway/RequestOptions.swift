internal import CanopyTree
package import CanopyWire

/// The options of a REST request.
package struct RequestOptions: Equatable {
  /// The forms of the body of a response.
  enum Printing: Equatable {
    /// The shortest form.
    case compact
    /// With line breaks and indentation.
    case pretty
    /// None: the status is 204.
    case silent
  }

  /// The query, and the form of the data.
  var get = GetOptions()
  var printing = Printing.compact
  /// The name under which a browser saves the body.
  var download: String?
  /// The milliseconds that a read may take.
  var timeoutMilliseconds: Int64?
  /// The number of a commit that the server must have before it reads; nil for none.
  var atLeast: Int64?
  /// The bytes of JSON that a write may add and remove together; nil for no bound of the request.
  var writtenBytesMax: Int?

  /// Reads the options of a request.
  ///
  /// - Throws: `WireError` for an option with an invalid value, or options that exclude each other.
  package init(_ target: Target) throws(WireError) {
    try readQuery(target)
    switch target["print"] {
    case nil: break
    case "pretty": printing = .pretty
    case "silent": printing = .silent
    default: throw WireError(.badRequest, "print must be pretty or silent")
    }
    switch target["format"] {
    case nil: break
    case "export": get.isExport = true
    default: throw WireError(.badRequest, "format must be export")
    }
    switch target["shallow"] {
    case nil, "false": break
    case "true": get.isShallow = true
    default: throw WireError(.badRequest, "shallow must be true or false")
    }
    if get.isShallow, get.hasQuery {
      throw WireError(
        .badRequest, "shallow cannot be used with orderBy, the bounds and limits of a query")
    }
    if get.isShallow, get.isExport {
      throw WireError(.badRequest, "shallow cannot be used with format=export")
    }
    download = target["download"]
    if let text = target["atLeast"] {
      guard let sequence = Int64(text), sequence >= 0 else {
        throw WireError(.badRequest, "atLeast must be the number of a commit, from 0 on")
      }
      atLeast = sequence
    }
    timeoutMilliseconds = try target["timeout"].map(RequestOptions.milliseconds)
    writtenBytesMax = try target["writeSizeLimit"].flatMap(RequestOptions.writtenBytesMax)
  }

  /// The bytes that a write may add and remove for each second that it may take: a cautious estimate.
  static let writtenBytesPerSecond = 1024 * 1024

  /// Returns the bound of a text: an estimate for the seconds that official servers name; nil for `unlimited`.
  private static func writtenBytesMax(_ text: String) throws(WireError) -> Int? {
    switch text {
    case "tiny": 1 * writtenBytesPerSecond
    case "small": 10 * writtenBytesPerSecond
    case "medium": 30 * writtenBytesPerSecond
    case "large": 60 * writtenBytesPerSecond
    case "unlimited": nil
    default:
      throw WireError(
        .badRequest, "writeSizeLimit must be tiny, small, medium, large or unlimited")
    }
  }

  private mutating func readQuery(_ target: Target) throws(WireError) {
    var members: [(name: String, value: JSONValue)] = []
    for parameter in target.parameters where Query.optionNames.contains(parameter.name) {
      do throws(TreeError) {
        members.append((parameter.name, try JSONValue(json: parameter.value)))
      } catch {
        throw WireError(
          .badRequest,
          parameter.name == "orderBy"
            ? "orderBy must be a valid JSON encoded path"
            : "\(parameter.name) must be valid JSON: \(error.sentence)")
      }
    }
    guard !members.isEmpty else { return }
    guard members.contains(where: { $0.name == "orderBy" }) else {
      throw WireError(
        .badRequest, "orderBy must be defined when other query parameters are defined")
    }
    guard Set(members.map(\.name)).count == members.count else {
      throw WireError(.badRequest, "a query parameter is given twice")
    }
    do throws(TreeError) { get.query = try Query(options: .object(members)) } catch {
      throw WireError(error)
    }
    get.hasQuery = true
  }

  /// The longest time that a read may ask for: 15 minutes.
  private static let timeoutMax: Int64 = 15 * 60 * 1000

  /// Returns the milliseconds of a text such as `3ms`, `3s` or `3min`.
  private static func milliseconds(_ text: String) throws(WireError) -> Int64 {
    let digits = text.prefix { $0.isASCII && $0.isNumber }
    let scale: Int64? =
      switch text.dropFirst(digits.count) {
      case "ms": 1
      case "s": 1000
      case "min": 60_000
      default: nil
      }
    guard let scale, digits.count <= 6, let number = Int64(digits), number > 0,
      number * scale <= timeoutMax
    else {
      throw WireError(
        .badRequest, "timeout must be a number with a unit, at most 15min: 3ms, 3s or 3min")
    }
    return number * scale
  }
}
