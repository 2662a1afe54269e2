/// The encoding of Redis' commands.
enum RESP {
  static func command(_ words: [String]) -> [UInt8] {
    var bytes: [UInt8] = []
    append(words, to: &bytes)
    return bytes
  }

  static func append(_ words: [String], to output: inout [UInt8]) {
    output.append(UInt8(ascii: "*"))
    output.append(decimal: words.count)
    output += "\r\n".utf8
    for word in words { output.append(bulk: word) }
  }
}

extension [UInt8] {
  /// Appends a word of a command.
  mutating func append(bulk word: String) {
    append(UInt8(ascii: "$"))
    append(decimal: word.utf8.count)
    self += "\r\n".utf8
    self += word.utf8
    self += "\r\n".utf8
  }

  mutating func append(bulk number: Int) {
    append(UInt8(ascii: "$"))
    append(decimal: decimalDigits(number))
    self += "\r\n".utf8
    append(decimal: number)
    self += "\r\n".utf8
  }
}

/// Returns the number of digits of a number. Precondition: it is not negative.
func decimalDigits(_ number: Int) -> Int {
  assert(number >= 0, "the number is negative")
  var digits = 1
  var rest = number / 10
  while rest > 0 {
    digits += 1
    rest /= 10
  }
  return digits
}
