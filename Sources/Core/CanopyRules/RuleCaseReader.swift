internal import CanopyTree

/// Decodes a file of rule cases.
struct RuleCaseReader {
  private enum Operation: String {
    case read, set, update, remove
  }

  private let file: JSONValue

  init(_ file: JSONValue) {
    self.file = file
  }

  /// Calls `body` and turns its error into one about `subject`. `body` reads a re-encoded part of
  /// the file, so byte offsets in its errors are removed.
  static func reading<R>(
    _ subject: String, _ body: () throws(TreeError) -> R
  ) throws(RuleCaseError) -> R {
    do throws(TreeError) { return try body() } catch {
      var sentence = error.sentence
      if case .invalidJSON(let text, _) = error { sentence = text }
      throw RuleCaseError(sentence: "\(subject): \(sentence)")
    }
  }

  func read() throws(RuleCaseError) -> [RuleCases.Case] {
    try check(file, "the file", members: ["users", "now", "data", "cases"])
    guard let cases = file["cases"]?.elements else {
      throw RuleCaseError(sentence: "the file needs \"cases\", a list")
    }
    let data = try node(file["data"], "\"data\" of the file")
    var result: [RuleCases.Case] = []
    for (i, value) in cases.enumerated() {
      guard let name = value["name"]?.string else {
        throw RuleCaseError(sentence: "case \(i + 1) needs a \"name\"")
      }
      result.append(try read(value, "case \(i + 1), \(name)", name: name, data))
    }
    return result
  }

  private func read(
    _ value: JSONValue, _ subject: String, name: String, _ data: Node
  ) throws(RuleCaseError) -> RuleCases.Case {
    try check(
      value, subject,
      members: ["name", "as", "operation", "path", "query", "value", "data", "now", "expect"])
    guard let expected = value["expect"]?.string, expected == "allow" || expected == "deny" else {
      throw RuleCaseError(sentence: "\(subject): \"expect\" must be \"allow\" or \"deny\"")
    }
    let now = try time(value["now"] ?? file["now"], subject)
    return RuleCases.Case(
      name: name, isAllowed: expected == "allow",
      caller: RuleCaller(auth: try auth(value["as"], subject), now: now),
      data: try value["data"].map { data throws(RuleCaseError) in try node(data, subject) } ?? data,
      request: try request(value, subject))
  }

  private func request(
    _ value: JSONValue, _ subject: String
  ) throws(RuleCaseError) -> RuleCases.Request {
    guard let path = value["path"]?.string else {
      throw RuleCaseError(sentence: "\(subject): \"path\" must be a string")
    }
    guard let operation = value["operation"]?.string.flatMap(Operation.init(rawValue:)) else {
      throw RuleCaseError(
        sentence: "\(subject): \"operation\" must be read, set, update or remove")
    }
    if let query = value["query"] {
      guard operation == .read else {
        throw RuleCaseError(sentence: "\(subject): only a read may have a \"query\"")
      }
      try check(query, "\(subject): \"query\"", members: Query.optionNames)
    }
    let isWritten = operation == .set || operation == .update
    guard (value["value"] != nil) == isWritten else {
      throw RuleCaseError(
        sentence: "\(subject): "
          + (isWritten ? "it needs a \"value\"" : "only set and update have a \"value\""))
    }
    return try Self.reading(subject) { () throws(TreeError) in
      switch operation {
      case .read:
        return .read(
          try Path(path),
          try value["query"].map { query throws(TreeError) in
            try Query(options: query)
          })
      case .set:
        let new = try WriteValue(json: value["value"] ?? .null)
        return .write(try .set(try Location(path), new))
      case .remove:
        return .write(try .set(try Location(path), WriteValue(.absent)))
      case .update:
        let text = (value["value"] ?? .null).json
        let changes = try Self.update(text)
        return .write(try .update(try Path(path), changes))
      }
    }
  }

  private static func update(_ text: String) throws(TreeError) -> [(Location, WriteValue)] {
    let result = text.withUTF8Bytes { bytes in
      Result { () throws(TreeError) in try JSONReader.readUpdate(json: bytes, limits: .none) }
    }
    return try result.get()
  }

  private func auth(_ value: JSONValue?, _ subject: String) throws(RuleCaseError) -> Node? {
    guard let value, value != .null else { return nil }
    guard let name = value.string else {
      return try auth(object: value, "\(subject): \"as\", unless it names a user,")
    }
    guard let user = file["users"]?[name] else {
      throw RuleCaseError(sentence: "\(subject): \"users\" has no \(name)")
    }
    return try auth(object: user, "user \(name)")
  }

  private func auth(object: JSONValue, _ subject: String) throws(RuleCaseError) -> Node {
    guard case .object = object else {
      throw RuleCaseError(sentence: "\(subject) must be an object")
    }
    return try node(object, subject)
  }

  private func time(_ value: JSONValue?, _ subject: String) throws(RuleCaseError) -> Int64 {
    guard let value else { return 0 }
    guard case .leaf(let node) = value, let time = node.integerValue else {
      throw RuleCaseError(sentence: "\(subject): \"now\" must be milliseconds since 1970")
    }
    return time
  }

  private func node(_ value: JSONValue?, _ subject: String) throws(RuleCaseError) -> Node {
    try Self.reading(subject) { () throws(TreeError) in
      let value = try WriteValue(json: value ?? .null)
      guard value.serverValues.isEmpty else {
        throw .invalidData("data that is there already may hold no .sv")
      }
      return value.node
    }
  }

  /// Checks that an object has no unknown members: a misspelt one would change the meaning of a
  /// case.
  private func check(
    _ value: JSONValue, _ subject: String, members: Set<String>
  ) throws(RuleCaseError) {
    guard case .object(let all) = value else {
      throw RuleCaseError(sentence: "\(subject) must be an object")
    }
    for (name, _) in all where !members.contains(name) {
      throw RuleCaseError(sentence: "\(subject) has an unknown member, \(name)")
    }
  }
}

extension WriteValue {
  /// Creates a value from JSON, with priorities and server values.
  fileprivate init(json value: JSONValue) throws(TreeError) {
    self = try WriteValue(json: value.json, limits: .none)
  }
}

extension JSONValue {
  /// The value as JSON text.
  fileprivate var json: String {
    var output = JSONOutput()
    write(to: &output)
    return output.text
  }

  private func write(to output: inout JSONOutput) {
    switch self {
    case .null: output.append("null")
    case .leaf(let node): output.append(node)
    case .array(let elements):
      output.append("[")
      for (i, element) in elements.enumerated() {
        if i > 0 { output.append(",") }
        element.write(to: &output)
      }
      output.append("]")
    case .object(let members):
      output.append("{")
      for (i, member) in members.enumerated() {
        if i > 0 { output.append(",") }
        output.append(string: member.name)
        output.append(":")
        member.value.write(to: &output)
      }
      output.append("}")
    }
  }
}
