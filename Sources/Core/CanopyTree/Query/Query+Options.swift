extension Query {
  /// The names of the options that form a query.
  public static let optionNames: Set<String> = [
    "orderBy", "startAt", "startAfter", "endAt", "endBefore", "equalTo", "limitToFirst",
    "limitToLast",
  ]

  /// Creates a query from options, as in the line protocol and REST. Other options are ignored.
  ///
  /// `{"orderBy":"$key"|"$value"|"$priority"|"child/path", "startAt":v, …, "limitToLast":n}`; a
  /// bound may be `[value,key]`.
  ///
  /// - Throws: `TreeError.invalidQuery`, which says which part is wrong.
  public init(options: JSONValue) throws(TreeError) {
    let order = try Query.order(options["orderBy"])
    func bound(_ name: String, isInclusive: Bool) throws(TreeError) -> Bound? {
      guard let value = options[name] else { return nil }
      return try Query.bound(name, value, order, isInclusive: isInclusive)
    }
    let startAt = try bound("startAt", isInclusive: true)
    let startAfter = try bound("startAfter", isInclusive: false)
    let endAt = try bound("endAt", isInclusive: true)
    let endBefore = try bound("endBefore", isInclusive: false)
    let equalTo = try bound("equalTo", isInclusive: true)
    if startAt != nil, startAfter != nil {
      throw .invalidQuery("startAt and startAfter exclude each other")
    }
    if endAt != nil, endBefore != nil {
      throw .invalidQuery("endAt and endBefore exclude each other")
    }
    let lower = startAt ?? startAfter
    let upper = endAt ?? endBefore
    if equalTo != nil, lower != nil || upper != nil {
      throw .invalidQuery("equalTo excludes the other bounds")
    }
    let first = try Query.limit("limitToFirst", options)
    let last = try Query.limit("limitToLast", options)
    if first != nil, last != nil {
      throw .invalidQuery("limitToFirst and limitToLast exclude each other")
    }
    try self.init(
      order: order, lower: equalTo ?? lower, upper: equalTo ?? upper,
      limit: first.map(Limit.first) ?? last.map(Limit.last))
  }

  private static func order(_ value: JSONValue?) throws(TreeError) -> Order {
    guard let value else { return .priority }
    guard let text = value.string else {
      throw .invalidQuery("orderBy must be a string: \"$key\", \"$value\", \"$priority\" or a path")
    }
    switch text {
    case "$key": return .key
    case "$value": return .value
    case "$priority": return .priority
    default:
      do throws(TreeError) {
        let path = try Path(text)
        if !path.isRoot { return .child(path) }
      } catch {
        throw .invalidQuery("orderBy must name a child: \(error.sentence)")
      }
      throw .invalidQuery("orderBy must name a child, or be \"$key\", \"$value\" or \"$priority\"")
    }
  }

  private static func bound(
    _ name: String, _ json: JSONValue, _ order: Order, isInclusive: Bool
  ) throws(TreeError) -> Bound {
    var value = json
    var key: Key?
    if case .array(let parts) = json {
      guard parts.count == 2, let text = parts[1].string else {
        throw .invalidQuery("\(name) must be a value or [value,key]")
      }
      value = parts[0]
      key = try Query.key(name, text)
    }
    if order == .key {
      guard let text = value.string else { throw .invalidQuery("by key, \(name) must be a string") }
      guard key == nil else {
        throw .invalidQuery("by key, \(name) must be one key, without the key of a child")
      }
      return Bound(.absent, key: try Query.key(name, text), isInclusive: isInclusive)
    }
    switch value {
    case .null: return Bound(.absent, key: key, isInclusive: isInclusive)
    case .leaf(let node):
      if let value = BoundValue(node) { return Bound(value, key: key, isInclusive: isInclusive) }
      fallthrough
    default: throw .invalidQuery("\(name) must be a string, a number, a bool or null")
    }
  }

  private static func key(_ name: String, _ text: String) throws(TreeError) -> Key {
    do throws(TreeError) {
      return try Key(text)
    } catch {
      throw .invalidQuery("the key of \(name) is not valid: \(error.sentence)")
    }
  }

  private static func limit(_ name: String, _ options: JSONValue) throws(TreeError) -> Int? {
    guard let value = options[name] else { return nil }
    guard case .leaf(let node) = value, let n = node.integerValue, n > 0,
      let limit = Int(exactly: n)
    else { throw .invalidQuery("\(name) must be a positive integer") }
    return limit
  }
}
