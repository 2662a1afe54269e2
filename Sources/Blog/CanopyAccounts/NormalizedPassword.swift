/// A password as it is measured and hashed: in Unicode's composed form (NFC), so that `é` opens
/// the account whether the keyboard sends one code point or two.
///
/// Its `description` shows nothing of it.
struct NormalizedPassword: Sendable {
  /// The longest password, in Unicode scalars of the composed form. A longer one is refused and
  /// never cut: a cut password would be opened by many.
  static let scalarsMax = 128
  /// The shortest that may be chosen.
  static let scalarsMin = 8

  /// Composition joins at most four scalars of at most four bytes into one, so a longer text
  /// cannot come out short enough; it is refused before the work of composing it.
  private static let bytesMax = scalarsMax * 4 * 4

  /// The password, composed.
  let text: String
  /// How many Unicode scalars it has.
  let scalarCount: Int

  /// The bytes that are hashed.
  var bytes: [UInt8] { Array(text.utf8) }

  /// The password that `raw` spells, or nil if it is longer than any password can be.
  init?(_ raw: String) {
    guard raw.utf8.count <= Self.bytesMax else { return nil }
    let composed = raw.composed
    let count = composed.unicodeScalars.count
    guard count <= Self.scalarsMax else { return nil }
    self.text = composed
    self.scalarCount = count
  }
}

extension NormalizedPassword: CustomStringConvertible, CustomReflectable {
  var description: String { "NormalizedPassword(<redacted>)" }
  var customMirror: Mirror { Mirror(self, children: []) }
}
