public import CanopyTree

extension Users {
  /// Returns the uids of users whose names begin with a text, in any case of letters, in the order of the names.
  ///
  /// A name that is a number is found only by the whole name, because numbers have an order of their own.
  ///
  /// - Parameters:
  ///   - prefix: the beginning of the names.
  ///   - limit: the most uids.
  /// - Complexity: O(log users + limit).
  public static func search(prefix: String, limit: Int, in root: Node) -> [Key] {
    let prefix = prefix.asciiLowercased
    let names = root.child(Layout.usernames)
    // A space precedes all characters of names.
    guard let whole = try? Key(prefix), let start = try? Key(prefix + " ") else { return [] }
    var found = [(key: whole, node: names.child(whole))]
    found += names.children(after: start, limit: limit).prefix {
      $0.key.text.hasBytePrefix(prefix)
    }
    return found.compactMap { $0.node.stringValue.flatMap { try? Key($0) } }.prefix(limit).map(
      \.self)
  }
}
