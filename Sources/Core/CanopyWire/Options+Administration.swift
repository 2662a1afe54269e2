internal import CanopyTree

/// The options of the administrator's verbs.
extension Options {
  static func keysPage(_ arguments: inout Arguments) throws(WireError) -> KeysPage {
    var page = KeysPage()
    let options = try pageOptions(
      &arguments, "KEYS", ["after"], &page.limit, max: KeysPage.limitMax)
    page.after = try text("after", options).map { text throws(WireError) in
      try key(text, "after")
    }
    return page
  }

  static func usersPage(_ arguments: inout Arguments) throws(WireError) -> UsersPage {
    var page = UsersPage()
    let options = try pageOptions(
      &arguments, "USERS", ["after", "find"], &page.limit, max: UsersPage.limitMax)
    page.after = try text("after", options)
    page.find = try text("find", options)
    guard page.find?.isEmpty != true else {
      throw WireError(.badRequest, "find must have at least one character")
    }
    guard page.after == nil || page.find == nil else {
      throw WireError(.badRequest, "after and find exclude each other; find has one page")
    }
    return page
  }

  static func logPage(_ arguments: inout Arguments) throws(WireError) -> LogPage {
    var page = LogPage()
    let options = try pageOptions(
      &arguments, "LOG", ["after", "level"], &page.limit, max: LogPage.limitMax)
    page.after = try number("after", options)
    guard let name = try text("level", options) else { return page }
    page.level = try LogPage.Level(option: name)
    return page
  }

  static func exportPage(_ arguments: inout Arguments) throws(WireError) -> ExportPage {
    var page = ExportPage()
    let options = try pageOptions(
      &arguments, "EXPORT", ["after"], &page.limit, max: ExportPage.limitMax)
    page.after = try text("after", options)
    return page
  }

  /// Reads whether a deletion includes everything that the user has added to the blog.
  static func withPosts(
    _ arguments: inout Arguments, _ verb: String
  ) throws(WireError) -> Bool {
    guard let value = try read(&arguments, verb, allowed: ["posts"])?["posts"] else { return false }
    guard case .leaf(let node) = value, case .bool(let withPosts) = node.value else {
      throw WireError(.badRequest, "posts must be true or false")
    }
    return withPosts
  }

  static func clientsPage(
    _ arguments: inout Arguments
  ) throws(WireError) -> (after: Int64, limit: Int) {
    var limit = 100
    let options = try pageOptions(&arguments, "CLIENTS", ["after"], &limit, max: 1_000)
    return (try number("after", options) ?? 0, limit)
  }

  /// Reads options that have nothing but a limit.
  static func limit(
    _ arguments: inout Arguments, _ verb: String, default number: Int, max: Int
  ) throws(WireError) -> Int {
    var limit = number
    _ = try pageOptions(&arguments, verb, [], &limit, max: max)
    return limit
  }

  /// Reads the options of a page: the limit and some others. Returns nil when the request has no options.
  ///
  /// - Parameters:
  ///   - names: the names of the other options.
  ///   - limit: the default, and then the limit of the page.
  ///   - max: the maximum of the limit.
  private static func pageOptions(
    _ arguments: inout Arguments, _ verb: String, _ names: [String], _ limit: inout Int, max: Int
  ) throws(WireError) -> JSONValue? {
    guard let options = try read(&arguments, verb, allowed: Set(names + ["limit"])) else {
      return nil
    }
    limit = try self.limit(options, default: limit, max: max)
    return options
  }

  private static func limit(
    _ options: JSONValue, default number: Int, max: Int
  ) throws(WireError) -> Int {
    guard let limit = try limit(options) else { return number }
    guard limit >= 1, limit <= max else {
      throw WireError(.badRequest, "limit must be an integer from 1 to \(max)")
    }
    return Int(limit)
  }

  private static func text(_ name: String, _ options: JSONValue?) throws(WireError) -> String? {
    guard let value = options?[name] else { return nil }
    guard let text = value.string else {
      throw WireError(.badRequest, "\(name) must be a string")
    }
    return text
  }

  private static func number(_ name: String, _ options: JSONValue?) throws(WireError) -> Int64? {
    guard let value = options?[name] else { return nil }
    guard case .leaf(let node) = value, let number = node.integerValue, number >= 0 else {
      throw WireError(.badRequest, "\(name) must be an integer from 0 on")
    }
    return number
  }
}

extension LogPage.Level {
  /// Creates the level with a name.
  ///
  /// - Throws: `WireError` if there is none.
  init(option name: String) throws(WireError) {
    guard let level = LogPage.Level(rawValue: name) else {
      let names = LogPage.Level.allCases.map(\.rawValue).joined(separator: ", ")
      throw WireError(.badRequest, "level must be one of \(names)")
    }
    self = level
  }
}
