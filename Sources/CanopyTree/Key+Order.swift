/// The order of keys: canonical 32-bit integers first, by number; then all others by UTF-16 code
/// units, as the official clients compare.
extension Key: Comparable {
  /// Whether `a` sorts before `b`.
  public static func < (a: Key, b: Key) -> Bool {
    switch (a.form, b.form) {
    case (.push(let a0, let a1), .push(let b0, let b1)):
      // Six-bit digits ascend as their characters do.
      return a0 != b0 ? a0 < b0 : a1 < b1
    case (.short(let a0, let a1), .short(let b0, let b1)):
      return a0 != b0 ? TextOrder.precedes(a0, b0) : a1 != b1 && TextOrder.precedes(a1, b1)
    case (.integer(let a), .integer(let b)):
      return a < b
    case (.integer, _):
      return true
    case (_, .integer):
      return false
    default:
      return a.withUTF8 { a in b.withUTF8 { b in TextOrder.compare(a, b) < 0 } }
    }
  }
}
