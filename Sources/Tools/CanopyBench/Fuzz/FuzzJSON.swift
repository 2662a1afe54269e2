/// A value of JSON that a fuzzer changes before it is written. The text is always JSON.
indirect enum FuzzJSON {
  /// A text of JSON.
  case text(String)
  case object([(name: String, value: FuzzJSON)])

  /// Returns a string. It must need no escapes.
  static func string(_ text: String) -> FuzzJSON { .text("\"\(text)\"") }

  var description: String {
    switch self {
    case .text(let text): text
    case .object(let members):
      "{" + members.map { "\"\($0.name)\":\($0.value.description)" }.joined(separator: ",") + "}"
    }
  }
}

extension FuzzText {
  /// Changes a random part of a value: a member is removed, doubled or renamed, or a value is replaced by another one.
  mutating func change(_ value: inout FuzzJSON) {
    guard case .object(var members) = value, !members.isEmpty, !oneIn(8) else {
      value = changed(value)
      return
    }
    let place = below(members.count)
    switch below(12) {
    case 0: members.remove(at: place)
    case 1: members.append(members[place])
    case 2: members[place].name = plainKey()
    case 3: members.append((plainKey(), .text(json(2))))
    case 4: members.append((".priority", .text(pick(["1", "\"p\"", "null", "{}", "true", "[]"]))))
    case 5: members.swapAt(place, below(members.count))
    default: change(&members[place].value)
    }
    value = .object(members)
  }

  private mutating func changed(_ value: FuzzJSON) -> FuzzJSON {
    switch below(10) {
    case 0: return .text("[\(value.description)]")
    case 1: return .object([(plainKey(), value)])
    case 2:
      let depth = below(70)
      return .text(
        String(repeating: "{\"a\":", count: depth) + value.description
          + String(repeating: "}", count: depth))
    case 3: return .object([(".value", value), (".priority", .text(json(3)))])
    case 4:
      return .text(
        pick([
          "-1", "0", "1", "2147483647", "2147483648", "-2147483649", "9007199254740993",
          "9223372036854775807", "9223372036854775808", "1e308", "1e-400", "0.1", "-0.0", "1E+2",
        ]))
    case 5:
      return .text(
        pick([
          "null", "true", "false", "\"\"", "{}", "[]", "[null]", "\"\\u0000\"", "\"\\ud800\"",
          "\"\(String(repeating: "s", count: below(2_000)))\"",
        ]))
    case 6: return .string(path())
    default: return .text(json(1))
    }
  }

  /// Returns a key that needs no escapes in JSON, in rare cases one that the tree does not have.
  mutating func plainKey() -> String {
    let isValid = isValid
    self.isValid = true
    defer { self.isValid = isValid }
    return key()
  }
}
