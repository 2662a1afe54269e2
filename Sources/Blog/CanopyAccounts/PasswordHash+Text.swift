extension PasswordHash {
  /// The hash as a PHC string.
  public var encoded: String {
    let (memory, passes, lanes) = (parameters.memoryKibibytes, parameters.passes, parameters.lanes)
    let salt = Base64.encode(salt, as: .standard)
    let tag = Base64.encode(tag, as: .standard)
    return "$argon2id$v=19$m=\(memory),t=\(passes),p=\(lanes)$\(salt)$\(tag)"
  }

  /// The hash that a PHC string spells, or nil for any other text: another algorithm or version,
  /// parameters out of bounds, a number with a sign or leading zeros, bad base64.
  ///
  /// O(bytes of text), of which no more than a bounded number is looked at.
  public init?(encoded: String) {
    guard encoded.utf8.count <= Self.textBytesMax else { return nil }
    let fields = encoded.utf8.split(separator: UInt8(ascii: "$"), omittingEmptySubsequences: false)
      .map { String(Substring($0)) }
    // By pattern rather than by index: a text with another number of fields matches nothing.
    var rest = fields[...]
    guard fields.count == 6, rest.popFirst() == "", rest.popFirst() == "argon2id",
      rest.popFirst() == "v=19",
      let parameters = rest.popFirst().flatMap(Self.parameters(in:)),
      let salt = rest.popFirst().flatMap({ Base64.decode($0, as: .standard) }),
      let tag = rest.popFirst().flatMap({ Base64.decode($0, as: .standard) })
    else { return nil }
    self.init(parameters: parameters, salt: salt, tag: tag)
  }

  /// The parameters that `m=…,t=…,p=…` spells; the order is fixed by the format.
  private static func parameters(in text: String) -> HashParameters? {
    var numbers: [String: UInt32] = [:]
    let items = text.utf8.split(separator: UInt8(ascii: ","), omittingEmptySubsequences: false)
    guard items.count == 3 else { return nil }
    for (name, item) in zip(["m", "t", "p"], items) {
      let text = String(Substring(item))
      guard text.utf8.starts(with: (name + "=").utf8),
        let number = number(in: text.utf8.dropFirst(2))
      else {
        return nil
      }
      numbers[name] = number
    }
    guard let memory = numbers["m"], let passes = numbers["t"], let lanes = numbers["p"] else {
      return nil
    }
    return HashParameters(memoryKibibytes: memory, passes: passes, lanes: lanes)
  }

  /// A decimal number written in the one usual way, without sign and without leading zeros.
  private static func number(in digits: Substring.UTF8View) -> UInt32? {
    guard let first = digits.first, first != UInt8(ascii: "0") || digits.count == 1 else {
      return nil
    }
    var number: UInt32 = 0
    for digit in digits {
      guard (UInt8(ascii: "0")...UInt8(ascii: "9")).contains(digit) else { return nil }
      let (tenfold, overflow) = number.multipliedReportingOverflow(by: 10)
      let (sum, carry) = tenfold.addingReportingOverflow(UInt32(digit - UInt8(ascii: "0")))
      guard !overflow, !carry else { return nil }
      number = sum
    }
    return number
  }
}
