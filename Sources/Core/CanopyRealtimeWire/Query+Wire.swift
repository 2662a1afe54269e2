public import CanopyTree

/// Queries in the form of the realtime protocol: an object with one member for each part.
///
/// | member | part |
/// |---|---|
/// | `sp`, `sn`, `sin` | the start: value, key, whether it is inclusive |
/// | `ep`, `en`, `ein` | the end |
/// | `l`, `vf` | the limit, from the `l`eft or the `r`ight |
/// | `i` | the order: `.key`, `.value`, a path; absent for the priority |
///
/// A bound before or after all keys is written with a name that no key can have.
extension Query {
  private static let names: Set<String> = [
    "sp", "sn", "sin", "ep", "en", "ein", "l", "vf", "i",
  ]
  private static let firstName = "[MIN_NAME]"
  private static let lastName = "[MAX_NAME]"

  /// Decodes a query.
  ///
  /// - Throws: `TreeError.invalidQuery`, which says which part is wrong.
  public init(wire json: JSONValue) throws(TreeError) {
    if case .null = json {
      self = .all
      return
    }
    guard let members = json.members else {
      throw .invalidQuery("a query must be a JSON object")
    }
    if let unknown = members.first(where: { !Query.names.contains($0.name) }) {
      throw .invalidQuery("a query has no member \(unknown.name)")
    }
    let order = try Query.order(wire: json["i"])
    try self.init(
      order: order,
      lower: try Query.bound(wire: json, order, ("sp", "sn", "sin"), isLower: true),
      upper: try Query.bound(wire: json, order, ("ep", "en", "ein"), isLower: false),
      limit: try Query.limit(wire: json))
  }

  private static func order(wire json: JSONValue?) throws(TreeError) -> Order {
    guard let json, json != .null else { return .priority }
    switch json.string {
    case ".key": return .key
    case ".value": return .value
    case ".priority": return .priority
    case nil: throw .invalidQuery("i must be a string: .key, .value, .priority or a path")
    case let text?:
      do throws(TreeError) {
        let path = try Path(text)
        if !path.isRoot { return .child(path) }
      } catch {
        throw .invalidQuery("i must name a child: \(error.sentence)")
      }
      throw .invalidQuery("i must name a child, or be .key, .value or .priority")
    }
  }

  private static func bound(
    wire json: JSONValue, _ order: Order,
    _ names: (value: String, key: String, isInclusive: String),
    isLower: Bool
  ) throws(TreeError) -> Bound? {
    guard let value = json[names.value] else {
      guard json[names.key] == nil else {
        throw .invalidQuery("\(names.key) needs \(names.value)")
      }
      return nil
    }
    var isInclusive = true
    if let flag = json[names.isInclusive] {
      guard case .leaf(let node) = flag, let wanted = node.boolValue else {
        throw .invalidQuery("\(names.isInclusive) must be true or false")
      }
      isInclusive = wanted
    }
    if order == .key {
      guard let text = value.string else {
        throw .invalidQuery("by key, \(names.value) must be a string")
      }
      // All keys are in the range, or none.
      if text == firstName, isLower { return nil }
      if text == lastName, !isLower { return nil }
      return Bound(.absent, key: try key(text, names.value), isInclusive: isInclusive)
    }
    guard let bound = boundValue(value) else {
      throw .invalidQuery("\(names.value) must be a string, a number, a bool or null")
    }
    guard let name = json[names.key], name != .null else {
      return Bound(bound, isInclusive: isInclusive)
    }
    guard let text = name.string else { throw .invalidQuery("\(names.key) must be a string") }
    switch text {
    case firstName: return Bound(bound, isInclusive: isLower)
    case lastName: return Bound(bound, isInclusive: !isLower)
    default: return Bound(bound, key: try key(text, names.key), isInclusive: isInclusive)
    }
  }

  private static func boundValue(_ json: JSONValue) -> BoundValue? {
    switch json {
    case .null: .absent
    case .leaf(let node): BoundValue(node)
    case .array, .object: nil
    }
  }

  private static func key(_ text: String, _ name: String) throws(TreeError) -> Key {
    do throws(TreeError) { return try Key(text) } catch {
      throw .invalidQuery("the key of \(name) is not valid: \(error.sentence)")
    }
  }

  private static func limit(wire json: JSONValue) throws(TreeError) -> Limit? {
    guard let value = json["l"] else { return nil }
    guard case .leaf(let node) = value, let n = node.integerValue, let count = Int(exactly: n)
    else {
      throw .invalidQuery("l must be a positive integer")
    }
    switch json["vf"] {
    case nil: return json["sp"] == nil ? .last(count) : .first(count)
    case let side?:
      switch side.string {
      case "l": return .first(count)
      case "r": return .last(count)
      default: throw .invalidQuery("vf must be \"l\" or \"r\"")
      }
    }
  }
}

extension JSONValue {
  fileprivate var members: [(name: String, value: JSONValue)]? {
    if case .object(let members) = self { members } else { nil }
  }
}

extension JSONOutput {
  /// Appends a query in the form of the realtime protocol.
  public mutating func append(wire query: Query) {
    object { output in
      if let bound = query.lower {
        output.append(bound, query.order, ("sp", "sn", "sin"), isLower: true)
      }
      if let bound = query.upper {
        output.append(bound, query.order, ("ep", "en", "ein"), isLower: false)
      }
      switch query.limit {
      case .first(let count):
        output.member("l", Int64(count))
        output.member("vf", "l")
      case .last(let count):
        output.member("l", Int64(count))
        output.member("vf", "r")
      case nil: break
      }
      switch query.order {
      case .priority: break
      case .key: output.member("i", ".key")
      case .value: output.member("i", ".value")
      case .child(let path): output.member("i", path.text)
      }
    }
  }

  private mutating func append(
    _ bound: Query.Bound, _ order: Order,
    _ names: (value: StaticString, key: StaticString, isInclusive: StaticString), isLower: Bool
  ) {
    member(names.value)
    if order == .key {
      append(string: bound.key?.text ?? "")
    } else {
      switch bound.value {
      case .absent: append("null")
      case .bool(let value): append(value ? "true" : "false")
      case .integer(let value): append(value)
      case .double(let value): append(value)
      case .string(let bytes): append(string: String(decoding: bytes, as: UTF8.self))
      }
      if let key = bound.key {
        member(names.key, key)
      } else if !bound.isInclusive {
        member(names.key, isLower ? "[MAX_NAME]" : "[MIN_NAME]")
      }
    }
    member(names.isInclusive, bound.isInclusive)
  }
}
