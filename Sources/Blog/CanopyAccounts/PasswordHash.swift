/// An argon2id hash with the salt and the parameters that are necessary to check a password.
///
/// Its text is a PHC string, the format of argon2's own tool:
///
///     $argon2id$v=19$m=19456,t=2,p=1$<salt>$<tag>
///
/// The salt and the tag are in base64 without padding. The `description` contains only the parameters.
public struct PasswordHash: Sendable, Equatable {
  /// The size of the salt in a new hash, in bytes.
  public static let saltBytes = 16
  /// The size of the tag in a new hash, in bytes.
  public static let tagBytes = 32

  /// The cost of the hash.
  public let parameters: HashParameters
  /// The salt, 8 to 64 bytes.
  public let salt: [UInt8]
  /// The tag, 16 to 64 bytes: the result of argon2id for the password and the salt.
  public let tag: [UInt8]

  static let saltBytesAllowed = 8...64
  static let tagBytesAllowed = 16...64
  /// The maximum size of a text. No valid hash has a longer one.
  static let textBytesMax = 256

  /// Creates a hash from its parts; nil if the length of the salt or the tag is out of bounds.
  public init?(parameters: HashParameters, salt: [UInt8], tag: [UInt8]) {
    guard Self.saltBytesAllowed.contains(salt.count), Self.tagBytesAllowed.contains(tag.count)
    else { return nil }
    self.parameters = parameters
    self.salt = salt
    self.tag = tag
  }

  /// Whether a new hash would have the same parameters and sizes, so that this one need not be replaced.
  func isMade(with current: HashParameters) -> Bool {
    parameters == current && salt.count == Self.saltBytes && tag.count == Self.tagBytes
  }
}

extension PasswordHash: CustomStringConvertible, CustomDebugStringConvertible, CustomReflectable {
  /// A text with the parameters, without the salt and the tag.
  public var description: String {
    let (memory, passes, lanes) = (parameters.memoryKibibytes, parameters.passes, parameters.lanes)
    return "PasswordHash(m=\(memory),t=\(passes),p=\(lanes), <redacted>)"
  }

  /// The same as ``description``.
  public var debugDescription: String { description }

  /// A mirror with only the parameters.
  public var customMirror: Mirror { Mirror(self, children: ["parameters": parameters]) }
}

extension PasswordHash {
  /// The hash as a PHC string.
  public var encoded: String {
    let (memory, passes, lanes) = (parameters.memoryKibibytes, parameters.passes, parameters.lanes)
    let salt = Base64.encode(salt, as: .standard)
    let tag = Base64.encode(tag, as: .standard)
    return "$argon2id$v=19$m=\(memory),t=\(passes),p=\(lanes)$\(salt)$\(tag)"
  }

  /// Creates a hash from a PHC string. Returns nil for any other text: another algorithm or version, parameters out of
  /// bounds, a number with a sign or leading zeros, invalid base64. O(1), because a long text is refused.
  public init?(encoded: String) {
    guard encoded.utf8.count <= Self.textBytesMax else { return nil }
    let fields = encoded.utf8.split(separator: UInt8(ascii: "$"), omittingEmptySubsequences: false)
      .map { String(Substring($0)) }
    // Fields are removed one by one instead of indexed, so any number of fields is safe.
    var rest = fields[...]
    guard fields.count == 6, rest.popFirst() == "", rest.popFirst() == "argon2id",
      rest.popFirst() == "v=19",
      let parameters = rest.popFirst().flatMap(Self.parameters(in:)),
      let salt = rest.popFirst().flatMap({ Base64.decode($0, as: .standard) }),
      let tag = rest.popFirst().flatMap({ Base64.decode($0, as: .standard) })
    else { return nil }
    self.init(parameters: parameters, salt: salt, tag: tag)
  }

  /// Parses `m=…,t=…,p=…`, in the order that the format prescribes.
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

  /// Parses a decimal number without a sign or leading zeros.
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

/// The cost of one argon2id hash: the memory, the passes over it, and the lanes.
///
/// All values are within bounds. Parameters are also read from stored text, and a damaged or manipulated row must not make
/// the server allocate all memory of the machine.
public struct HashParameters: Sendable, Equatable {
  /// The memory, in KiB.
  public let memoryKibibytes: UInt32
  /// The number of passes over the memory.
  public let passes: UInt32
  /// The number of lanes. Each lane after the first needs a thread.
  public let lanes: UInt32

  /// The maximum memory, in KiB: 256 MiB.
  public static let memoryKibibytesMax: UInt32 = 262_144
  /// The maximum number of passes.
  public static let passesMax: UInt32 = 16
  /// The maximum number of lanes.
  public static let lanesMax: UInt32 = 4

  /// OWASP's minimum for argon2id: 19,456 KiB, 2 passes, 1 lane. About 30 ms on a small machine.
  public static let standard = HashParameters(unchecked: 19_456, passes: 2, lanes: 1)

  /// The cheapest parameters that argon2 allows, for tests. They give no protection.
  public static let cheapest = HashParameters(unchecked: 8, passes: 1, lanes: 1)

  /// Creates parameters; nil if one is out of bounds, or a lane has less than 8 KiB.
  public init?(memoryKibibytes: UInt32, passes: UInt32, lanes: UInt32) {
    guard (1...Self.lanesMax).contains(lanes), (1...Self.passesMax).contains(passes),
      (8 * lanes...Self.memoryKibibytesMax).contains(memoryKibibytes)
    else { return nil }
    self.init(unchecked: memoryKibibytes, passes: passes, lanes: lanes)
  }

  private init(unchecked memoryKibibytes: UInt32, passes: UInt32, lanes: UInt32) {
    self.memoryKibibytes = memoryKibibytes
    self.passes = passes
    self.lanes = lanes
  }
}
