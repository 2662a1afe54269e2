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

  /// The number that the key spells in any form of at most eleven characters, if it has 32 bits.
  var number: Int32? {
    bytes.count <= 11 && bytes.first != UInt8(ascii: "+") ? Int32(description) : nil
  }

  private var text: String { description }

  static func < (a: NaiveKey, b: NaiveKey) -> Bool {
    switch (a.number, b.number) {
    case (let x?, let y?): (Int(x), a.bytes.count, a.text) < (Int(y), b.bytes.count, b.text)
    case (_?, nil): true
    case (nil, _?): false
    case (nil, nil): a.text.utf16.lexicographicallyPrecedes(b.text.utf16)
    }
  }
}
