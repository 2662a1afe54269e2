internal import CanopyAccounts
internal import CanopyGateway
internal import CanopyIdentity
internal import CanopyTree

/// The requests of REST, and the texts that identify a caller.
extension FuzzedDecoder {
  /// The target of a request: its path with escapes, and its parameters.
  static let targets = FuzzedDecoder(
    name: "targets",
    sources: [
      "Serving/CanopyGateway/Target.swift", "Serving/CanopyGateway/RequestOptions.swift",
      "Core/CanopyTree/Query/Query+Options.swift",
    ]
  ) { input in
    guard let target = try? Target(String(decoding: input, as: UTF8.self)) else { return false }
    _ = try? RequestOptions(target)
    guard case .tree(let location)? = try? target.resource() else { return false }
    var text = "/"
    for byte in location.text.utf8 {
      if byte == UInt8(ascii: "/") {
        text += "/"
      } else {
        text += "%" + (byte < 16 ? "0" : "") + String(byte, radix: 16)
      }
    }
    text += ".json"
    guard let again = try? Target(text).resource(), again == .tree(location) else {
      throw Finding(description: "the location is not read again: \(text)")
    }
    return true
  }

  /// A header field, an address or a form.
  static let fields = FuzzedDecoder(
    name: "fields",
    sources: [
      "Serving/CanopyGateway/FieldText.swift", "Blog/CanopyAccounts/RemoteNetwork.swift",
      "Blog/CanopyAccounts/EmailAddress.swift", "Blog/CanopyIdentity/RequestBody.swift",
    ]
  ) { input in
    let text = String(decoding: input, as: UTF8.self)
    let parts = text.parts(separatedBy: UInt8(ascii: ","))
    try expect(parts.count <= String.fieldPartsMax, "a field has too many parts")
    for part in parts { _ = part.weighted }
    _ = RemoteNetwork(text)
    _ = FormBody(input).text("a")
    guard let address = EmailAddress(text) else { return false }
    // Two spellings of one account would be two accounts.
    try expect(
      EmailAddress(address.given) == address
        && EmailAddress(address.normalized)?.normalized.utf8.elementsEqual(address.normalized.utf8)
          == true,
      "the address \(text.debugDescription) is normalized differently again")
    return true
  }

  /// A token or a hash of a password.
  static let credentials = FuzzedDecoder(
    name: "credentials",
    sources: [
      "Blog/CanopyIdentity/JSONWebToken.swift", "Blog/CanopyAccounts/Base64.swift",
      "Blog/CanopyAccounts/PasswordHash.swift", "Blog/CanopyAccounts/SessionToken.swift",
    ]
  ) { input in
    let text = String(decoding: input, as: UTF8.self)
    // Each text that is accepted is the only one of its contents.
    for alphabet in [Base64.Alphabet.standard, .url] {
      if let bytes = Base64.decode(text, as: alphabet) {
        try expect(
          Base64.encode(bytes, as: alphabet).hasSameBytes(as: text), "two texts of base64: \(text)")
      }
    }
    if let hash = PasswordHash(encoded: text) {
      try expect(hash.encoded.hasSameBytes(as: text), "two texts of a hash: \(text)")
      return true
    }
    if let digest = TokenDigest(text: text) {
      try expect(digest.text.hasSameBytes(as: text), "two texts of a digest: \(text)")
      _ = TokenDigest(token: text)
      return true
    }
    guard let token = JSONWebToken(text) else { return false }
    try expect(text.utf8.starts(with: token.signed), "the signed bytes are not those of the token")
    return true
  }
}
