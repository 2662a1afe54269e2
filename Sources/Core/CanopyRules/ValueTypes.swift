/// The possible types of an expression, as known when the rules are loaded.
struct ValueTypes: OptionSet {
  let rawValue: UInt8

  static let null = ValueTypes(rawValue: 1)
  static let bool = ValueTypes(rawValue: 2)
  static let number = ValueTypes(rawValue: 4)
  static let string = ValueTypes(rawValue: 8)
  /// A node with children in the tree: `val()` reveals only that it exists.
  static let branch = ValueTypes(rawValue: 16)
  /// A part of the token, whose members can be named.
  static let token = ValueTypes(rawValue: 32)

  static let auth: ValueTypes = [.null, .token]
  static let tokenMember: ValueTypes = [.null, .bool, .number, .string, .token]
  static let treeValue: ValueTypes = [.null, .bool, .number, .string, .branch]
  static let bound: ValueTypes = [.null, .bool, .number, .string]
  static let any: ValueTypes = [.null, .bool, .number, .string, .branch, .token]

  /// The same types and, if they include a string or a number, also the token: its members may have
  /// any type.
  var withToken: ValueTypes { isDisjoint(with: [.string, .number]) ? self : union(.token) }

  /// The types in words, for errors: `a string or null`.
  var description: String {
    if self == .tokenMember || self == .treeValue || self == .any { return "any value" }
    let names: [(ValueTypes, String)] = [
      (.bool, "a bool"), (.number, "a number"), (.string, "a string"), (.branch, "an object"),
      (.token, "an object"), (.null, "null"),
    ]
    let words = names.filter { contains($0.0) }.map(\.1)
    guard let last = words.last else { return "nothing" }
    return words.count == 1 ? last : words.dropLast().joined(separator: ", ") + " or " + last
  }
}
