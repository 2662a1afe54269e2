import CanopyTree

/// A key of the naive model: bytes, ordered exactly as in the definition.
struct NaiveKey: Hashable, Comparable, CustomStringConvertible {
  let bytes: [UInt8]

  init(_ text: String) {
    bytes = Array(text.utf8)
  }

  init(_ key: Key) {
    self.init(key.text)
  }

  var description: String { String(decoding: bytes, as: UTF8.self) }

  /// The number that the key spells, if it is in Swift's form and has 32 bits.
  var number: Int32? {
    guard let number = Int32(description), "\(number)" == description else { return nil }
    return number
  }

  static func < (a: NaiveKey, b: NaiveKey) -> Bool {
    switch (a.number, b.number) {
    case (let a?, let b?): a < b
    case (_?, nil): true
    case (nil, _?): false
    case (nil, nil): a.description.utf16.lexicographicallyPrecedes(b.description.utf16)
    }
  }
}
