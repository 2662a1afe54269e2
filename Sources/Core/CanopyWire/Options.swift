internal import CanopyTree

/// Decoding of option objects. Rejects unknown names, so that a misspelt option is not ignored.
enum Options {
  static func read(
    _ arguments: inout Arguments, _ verb: String, allowed: Set<String>
  ) throws(WireError) -> JSONValue? {
    guard arguments.hasNext else { return nil }
    guard arguments.nextIsObject else {
      throw WireError(.badRequest, "the options of \(verb) must be a JSON object")
    }
    let options = try arguments.json(verb) { bytes, limits throws(TreeError) in
      try JSONValue(json: bytes, limits: limits)
    }
    guard case .object(let members) = options else {
      throw WireError(.badRequest, "the options of \(verb) must be a JSON object")
    }
    if Set(members.map(\.name)).count < members.count {
      throw WireError(.badRequest, "an option of \(verb) is given twice")
    }
    if let unknown = members.first(where: { !allowed.contains($0.name) }) {
      let names = allowed.sorted().joined(separator: ", ")
      throw WireError(.badRequest, "\(verb) has no option \(unknown.name); it has \(names)")
    }
    return options
  }

  /// Reads the options of a verb that reads, and notes `atLeast`.
  ///
  /// - Parameter allowed: the names of the options, with `atLeast`, which all these verbs have.
  private static func ofRead(
    _ arguments: inout Arguments, _ verb: String, allowed: Set<String>
  ) throws(WireError) -> JSONValue? {
    let options = try read(&arguments, verb, allowed: allowed)
    arguments.atLeast = try options.flatMap { options throws(WireError) in
      try sequence(atLeastName, "the seq of a commit", options)
    }
    return options
  }

  private static let atLeastName = "atLeast"
  // Made once: most requests have no options, and making a set takes longer than all else.
  private static let pageNames: Set = ["limit", "before", atLeastName]
  private static let countNames = Query.optionNames.union([atLeastName])
  private static let getNames = countNames.union(["shallow", "export", "etag"])

  static func page(
    _ arguments: inout Arguments, _ verb: String
  ) throws(WireError) -> PageRequest {
    guard let options = try ofRead(&arguments, verb, allowed: pageNames) else {
      return PageRequest()
    }
    var page = PageRequest()
    page.limit = try limit(options)
    if let before = options["before"] {
      guard let text = before.string else {
        throw WireError(.badRequest, "before must be the id of an entry, as a string")
      }
      page.before = try key(text, "before")
    }
    return page
  }

  static func credentials(_ arguments: inout Arguments) throws(WireError) -> AccountRequest {
    let options = try read(&arguments, "CREDENTIALS", allowed: ["email", "password"])
    let (email, password) = (options?["email"], options?["password"])
    guard email != nil || password != nil else {
      throw WireError(.badRequest, "CREDENTIALS needs an email, a password or both")
    }
    guard email == nil || email?.string != nil, password == nil || password?.string != nil else {
      throw WireError(.badRequest, "email and password must be strings")
    }
    return .changeCredentials(email: email?.string, password: password?.string)
  }

  static func watch(
    _ arguments: inout Arguments, isList: Bool
  ) throws(WireError) -> WatchOptions {
    let allowed: Set = isList ? ["limit", "since"] : ["since"]
    guard let options = try read(&arguments, "WATCH", allowed: allowed) else {
      return WatchOptions()
    }
    return WatchOptions(limit: try limit(options), since: try since(options))
  }

  static func listen(
    _ arguments: inout Arguments, _ verb: String
  ) throws(WireError) -> ListenOptions {
    let allowed = Query.optionNames.union(["events", "since"])
    guard let options = try read(&arguments, verb, allowed: allowed) else { return ListenOptions() }
    var result = ListenOptions(query: try query(options), since: try since(options))
    if let form = options["events"] {
      guard let form = form.string.flatMap(EventForm.init(rawValue:)) else {
        throw WireError(.badRequest, "events must be \"child\", \"value\" or \"sync\"")
      }
      result.form = form
    }
    return result
  }

  private static func since(_ options: JSONValue) throws(WireError) -> Int64? {
    try sequence("since", "the seq of an event", options)
  }

  private static func sequence(
    _ name: String, _ meaning: String, _ options: JSONValue
  ) throws(WireError) -> Int64? {
    guard let value = options[name] else { return nil }
    guard case .leaf(let node) = value, let sequence = node.integerValue, sequence >= 0 else {
      throw WireError(.badRequest, "\(name) must be \(meaning), an integer from 0 on")
    }
    return sequence
  }

  static func limit(_ options: JSONValue) throws(WireError) -> Int64? {
    guard let value = options["limit"] else { return nil }
    guard case .leaf(let node) = value, let limit = node.integerValue else {
      throw WireError(.badRequest, "limit must be an integer")
    }
    return limit
  }

  static func query(
    _ arguments: inout Arguments, _ verb: String
  ) throws(WireError) -> Query {
    guard let options = try read(&arguments, verb, allowed: Query.optionNames) else { return .all }
    return try query(options)
  }

  static func count(_ arguments: inout Arguments) throws(WireError) -> Query {
    guard let options = try ofRead(&arguments, "COUNT", allowed: countNames) else {
      return .all
    }
    return try query(options)
  }

  private static func query(_ options: JSONValue) throws(WireError) -> Query {
    do throws(TreeError) { return try Query(options: options) } catch { throw WireError(error) }
  }

  static func get(
    _ arguments: inout Arguments, _ verb: String
  ) throws(WireError) -> GetOptions {
    guard let options = try ofRead(&arguments, verb, allowed: getNames) else { return GetOptions() }
    var result = GetOptions()
    result.query = try query(options)
    result.hasQuery = Query.optionNames.contains { options[$0] != nil }
    result.isShallow = try flag("shallow", options)
    result.isExport = try flag("export", options)
    result.wantsETag = try flag("etag", options)
    if result.isShallow, result.isExport || result.wantsETag || result.hasQuery {
      throw WireError(.badRequest, "shallow cannot be used with other options")
    }
    if result.wantsETag, result.hasQuery {
      throw WireError(.badRequest, "etag cannot be used with a query")
    }
    return result
  }

  private static func flag(_ name: String, _ options: JSONValue) throws(WireError) -> Bool {
    guard let value = options[name] else { return false }
    guard case .leaf(let node) = value, let flag = node.boolValue else {
      throw WireError(.badRequest, "\(name) must be true or false")
    }
    return flag
  }

  static func key(_ text: String, _ name: String) throws(WireError) -> Key {
    try key(name) { () throws(TreeError) in try Key(text) }
  }

  /// Returns a key, or throws the error of an invalid id.
  @inline(__always)
  static func key(
    _ name: String, _ make: () throws(TreeError) -> Key
  ) throws(WireError) -> Key {
    do throws(TreeError) {
      return try make()
    } catch {
      throw WireError(.badRequest, "\(name) is not an id: \(error.sentence)")
    }
  }
}
