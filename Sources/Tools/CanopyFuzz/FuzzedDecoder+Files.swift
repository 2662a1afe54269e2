internal import CanopyAccounts
internal import CanopyBackup
internal import CanopyEngine
internal import CanopyIdentity
internal import CanopySession
internal import CanopySocial
internal import CanopyTree
internal import CanopyWire
internal import Foundation

/// The small files of a data folder, and the texts in its rows.
extension FuzzedDecoder {
  /// `admin-token`, `identity-keys`, `rules.json`, and the names of backups and namespaces.
  static let smallFiles = FuzzedDecoder(
    name: "small-files",
    sources: [
      "Blog/CanopyAccounts/AdministratorToken.swift", "Blog/CanopyAccounts/PrivateFile.swift",
      "Blog/CanopyIdentity/IdentityKeys.swift", "Core/CanopyEngine/RulesFile.swift",
      "Storage/CanopyBackup/StoredBackup.swift", "Core/CanopyWire/NamespaceName.swift",
    ],
    suspendingCheck: { input in
      let text = String(decoding: input, as: UTF8.self)
      _ = try? NamespaceName(text)
      _ = StoredBackup(name: text, bytes: 0)
      try checkRules(input, text)
      let folder = try ScratchFolder.take()
      defer { folder.giveBack() }
      let isToken = try checkToken(input, in: folder)
      let areKeys = try await checkKeys(input, in: folder)
      return isToken || areKeys
    })

  /// Checks that a file of rules keeps its text, and that a damaged text is noticed.
  private static func checkRules(_ input: [UInt8], _ text: String) throws {
    _ = RulesFile(input).isIntact
    var bytes = RulesFile.bytes(of: text)
    let file = RulesFile(bytes)
    try expect(file.isIntact && file.body == Array(text.utf8), "the rules differ: \(text)")
    guard let first = input.first, let last = input.last, last != 0, !text.isEmpty else { return }
    bytes[Int(first) % text.utf8.count] ^= last
    // Other bytes may be decoded to the same text, as two that are not UTF-8.
    let altered = RulesFile(bytes)
    try expect(
      !altered.isIntact || String(decoding: altered.body, as: UTF8.self).hasSameBytes(as: text),
      "damaged rules count as intact: \(bytes.shown)")
  }

  private static func checkToken(_ input: [UInt8], in folder: ScratchFolder) throws -> Bool {
    let isValid = (try? AdministratorToken.check(input, of: "")) != nil
    try folder.write(input, to: AdministratorToken.fileName)
    var token: AdministratorToken?
    do { token = try AdministratorToken.load(from: folder.path) } catch is AccountError {}
    try expect((token != nil) == isValid, "the check and the start differ about a token")
    guard let token else { return false }
    try expect(
      token.matches(token.text) && input.starts(with: token.text.utf8), "the token differs")
    return true
  }

  private static func checkKeys(_ input: [UInt8], in folder: ScratchFolder) async throws -> Bool {
    let isValid = (try? IdentityKeys.check(input, of: "")) != nil
    try folder.write(input, to: IdentityKeys.fileName)
    var keys: IdentityKeys?
    do { keys = try await IdentityKeys.loadOrCreate(in: folder.path) } catch is IdentityKeysError {}
    try expect((keys != nil) == isValid, "the check and the start differ about keys")
    guard let keys else { return false }
    // The former keys are written again.
    try await keys.rotate()
    let bytes = FileManager.default.contents(atPath: folder.path + "/" + IdentityKeys.fileName)
    try expect(
      (try? IdentityKeys.check(Array(bytes ?? Data()), of: "")) != nil,
      "the keys are not read again")
    return true
  }

  /// An on-disconnect write: in lines, the caller, the request and the exceptions. The first line is also the name of a
  /// client, and a position in an export.
  static let keptWrites = FuzzedDecoder(
    name: "kept-writes",
    sources: [
      "Serving/CanopySession/ArmedWrite.swift", "Serving/CanopySession/ArmedSession.swift",
      "Core/CanopyTree/WriteOrigin.swift", "Blog/CanopySocial/Contributions.swift",
    ]
  ) { input in
    let lines = input.split(separator: UInt8(ascii: "\n"), omittingEmptySubsequences: false)
      .map { String(decoding: $0, as: UTF8.self) }
    let first = lines.first ?? ""
    if let origin = try? WriteOrigin(storedClient: first, number: 2, seen: 1) {
      try expect(origin.storedClient.hasSameBytes(as: first), "the client differs: \(first)")
    }
    if let position = Contributions.Position(first) {
      try expect(position.text.hasSameBytes(as: first), "the position differs: \(first)")
    }
    let caller = try? KeptCaller(first)
    if let text = caller?.text {
      try expect(
        (try? KeptCaller(text))?.text.hasSameBytes(as: text) == true, "the caller differs: \(text)")
    }
    let kept = DisconnectWrite(
      id: 1, identity: first, request: lines.count > 1 ? lines[1] : "",
      exceptions: Array(lines.dropFirst(2)))
    guard let write = try? ArmedWrite(kept) else { return false }
    try expect(caller != nil, "a write has an invalid caller: \(first)")
    for item in write.write.items {
      if let problem = item.value.node.brokenInvariant() { throw Finding(description: problem) }
    }
    return true
  }
}
