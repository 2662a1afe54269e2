internal import CanopyTree

/// The members of a request's JSON body. A null member counts as missing.
struct RequestBody {
  private let object: JSONValue
  /// Admit the request to compute.
  let turns: ComputingTurns

  /// Reads the body of a request, in a turn. An empty one has no members.
  ///
  /// - Throws: ``IdentityError`` if the body is not a JSON object.
  init(of request: IdentityRequest) async throws {
    turns = request.turns
    object = try await turns.take(bytes: request.body.count) {
      try RequestBody.object(request.body)
    }
  }

  private static func object(_ bytes: [UInt8]) throws -> JSONValue {
    guard bytes.contains(where: { !" \t\r\n".utf8.contains($0) }) else { return .object([]) }
    guard let value = JSONValue(bytes: bytes) else {
      throw IdentityError.invalidBody("The body is not JSON.")
    }
    guard case .object = value else {
      throw IdentityError.invalidBody("The body is not an object.")
    }
    return value
  }

  private func member(_ name: String) -> JSONValue? {
    guard let value = object[name], value != .null else { return nil }
    return value
  }

  /// Returns a text.
  ///
  /// - Throws: ``IdentityError`` if the member is not a text.
  func text(_ name: String) throws -> String? {
    guard let value = member(name) else { return nil }
    guard let text = value.string else {
      throw IdentityError.invalidBody("The member \(name) must be a string.")
    }
    return text
  }

  /// Returns a Bool, which may be a text.
  ///
  /// - Throws: ``IdentityError`` if the member is not a Bool.
  func flag(_ name: String) throws -> Bool? {
    switch member(name) {
    case nil: return nil
    case .leaf(let node):
      if let flag = node.boolValue { return flag }
      if let text = node.stringValue {
        if text.hasSameBytes(as: "true") { return true }
        if text.hasSameBytes(as: "false") { return false }
      }
    case .null, .array, .object: break
    }
    throw IdentityError.invalidBody("The member \(name) must be true or false.")
  }

  /// Returns an integer, which may be a text.
  ///
  /// - Throws: ``IdentityError`` if the member is not an integer.
  func integer(_ name: String) throws -> Int64? {
    switch member(name) {
    case nil: return nil
    case .leaf(let node):
      if let number = node.integerValue { return number }
      if let text = node.stringValue, let number = Int64(text) { return number }
    case .null, .array, .object: break
    }
    throw IdentityError.invalidBody("The member \(name) must be an integer.")
  }

  /// Returns the texts of an array, or a text alone.
  ///
  /// - Throws: ``IdentityError`` if the member is not an array of at most `countMax` texts.
  func texts(_ name: String, countMax: Int = 1_000) throws -> [String]? {
    guard let value = member(name) else { return nil }
    if let text = value.string { return [text] }
    let texts = value.elements?.compactMap(\.string)
    guard let texts, texts.count == value.elements?.count, texts.count <= countMax else {
      throw IdentityError.invalidBody("The member \(name) must be an array of strings.")
    }
    return texts
  }

  /// Returns the objects of an array.
  func objects(_ name: String) -> [JSONValue] { member(name)?.elements ?? [] }
}

/// The members of a form (`application/x-www-form-urlencoded`).
package struct FormBody {
  private var members: [(name: [UInt8], value: [UInt8])] = []

  /// Reads a form. Never fails: a malformed escape stands for itself. O(bytes).
  package init(_ bytes: [UInt8]) {
    for part in bytes.split(separator: UInt8(ascii: "&")) {
      let pair = part.split(
        separator: UInt8(ascii: "="), maxSplits: 1, omittingEmptySubsequences: false)
      members.append(
        (FormBody.decode(pair.first ?? []), FormBody.decode(pair.count > 1 ? pair[1] : [])))
    }
  }

  /// Returns the first member with a name.
  package func text(_ name: String) -> String? {
    members.first { $0.name.elementsEqual(name.utf8) }
      .map { String(decoding: $0.value, as: UTF8.self) }
  }

  private static func decode(_ bytes: ArraySlice<UInt8>) -> [UInt8] {
    var decoded: [UInt8] = []
    var rest = bytes
    while let byte = rest.popFirst() {
      switch byte {
      case UInt8(ascii: "+"): decoded.append(UInt8(ascii: " "))
      case UInt8(ascii: "%"):
        let digits = rest.prefix(2).compactMap(FormBody.hexadecimal)
        if digits.count == 2 {
          decoded.append(digits[0] << 4 | digits[1])
          rest = rest.dropFirst(2)
        } else {
          decoded.append(byte)
        }
      default: decoded.append(byte)
      }
    }
    return decoded
  }

  private static func hexadecimal(_ byte: UInt8) -> UInt8? {
    switch byte {
    case UInt8(ascii: "0")...UInt8(ascii: "9"): byte - UInt8(ascii: "0")
    case UInt8(ascii: "a")...UInt8(ascii: "f"): byte - UInt8(ascii: "a") + 10
    case UInt8(ascii: "A")...UInt8(ascii: "F"): byte - UInt8(ascii: "A") + 10
    default: nil
    }
  }
}
