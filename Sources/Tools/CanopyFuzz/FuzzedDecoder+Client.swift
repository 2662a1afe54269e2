internal import CanopyClient
internal import CanopyTree
internal import Foundation

/// The things that a client reads besides the messages of its server.
extension FuzzedDecoder {
  /// The file of pending writes, and the saved session.
  static let clientFiles = FuzzedDecoder(
    name: "client-files",
    sources: [
      "Client/CanopyClient/Persistence/WriteJournal.swift",
      "Client/CanopyClient/Sync/SavedState.swift",
      "Client/CanopyClient/Database/RepositoryState+Persistence.swift",
    ]
  ) { input in
    if let session = SavedSession(String(decoding: input, as: UTF8.self)) {
      try expect(
        SavedSession(session.text)?.text.hasSameBytes(as: session.text) == true,
        "the session differs: \(session.text)")
      return true
    }
    let contents = try journal(input)
    // The store refuses a second write with a number.
    try expect(
      Set(contents.writes.map(\.id)).count == contents.writes.count, "two writes have one number")
    // A later process begins with the writes.
    var tree = SyncTree(restoring: SavedState(writes: contents.writes))
    for id in contents.removed { _ = tree.refused(id) }
    _ = tree.purgeWrites()
    let again = try ScratchFolder.withFolder { folder in
      for name in ["writes-0", "writes-1"] { try folder.write(emptyLine, to: name) }
      let journal = try WriteJournal(folder: folder.path)
      try journal.note(
        contents.writes.map { .writeAdded($0.id, $0.write, milliseconds: $0.milliseconds) }
          + contents.removed.map { .writeRemoved($0) })
      return journal.read()
    }
    try expect(
      again.removed == contents.removed && again.writes.count == contents.writes.count
        && zip(again.writes, contents.writes).allSatisfy(isSame),
      "the writes differ: \(input.shown)")
    return !contents.writes.isEmpty
  }

  /// The contents of a file without writes. An empty file has none either, but Foundation on Linux leaks 4 KiB for each
  /// read of one, and a long run would exceed the limit of its memory.
  private static let emptyLine = [UInt8(ascii: "\n")]

  private static func journal(_ input: [UInt8]) throws -> WriteJournal.Contents {
    try ScratchFolder.withFolder { folder in
      let parts = input.split(separator: 0, maxSplits: 1, omittingEmptySubsequences: false)
      for (name, part) in zip(["writes-0", "writes-1"], parts + [[]]) {
        try folder.write(part.isEmpty ? emptyLine : Array(part), to: name)
      }
      return try WriteJournal(folder: folder.path).read()
    }
  }

  private static func isSame(
    _ a: SavedState.SavedWrite, _ b: SavedState.SavedWrite
  ) -> Bool {
    a.id == b.id && a.milliseconds == b.milliseconds && a.write.items.count == b.write.items.count
      && zip(a.write.items, b.write.items).allSatisfy {
        $0.location == $1.location && $0.value.isSame(as: $1.value)
      }
  }

  /// The reply to an identity request, and an identity token.
  static let identityReplies = FuzzedDecoder(
    name: "identity-replies",
    sources: [
      "Client/CanopyClient/Auth/IdentityRequests.swift",
      "Client/CanopyClient/Auth/AuthTokenResult.swift",
    ]
  ) { input in
    let text = String(decoding: input, as: UTF8.self)
    try expect(!AuthError(identityMessage: text).sentence.isEmpty, "an error has no sentence")
    let credential = RealtimeCredential(text)
    try expect(credential.text.hasSameBytes(as: text), "a credential differs: \(text)")
    if let token = AuthTokenResult(text) {
      _ = token.claims
      return true
    }
    guard let reply = try? input.withUnsafeBytes({ try JSONValue(json: $0) }),
      let token = IdentityToken(reply, now: 1_700_000_000_000)
    else { return false }
    try expect(
      1_700_000_000_000...1_700_086_400_000 ~= token.expiresAt,
      "a token expires at \(token.expiresAt)")
    return true
  }

  /// The URL of a database, and a path.
  static let clientURLs = FuzzedDecoder(
    name: "client-urls",
    sources: [
      "Client/CanopyClient/Connection/Endpoint.swift",
      "Client/CanopyClient/Database/ReferenceTarget.swift",
      "Client/CanopyClient/Database/URLPath.swift",
    ]
  ) { input in
    let text = String(decoding: input, as: UTF8.self)
    let target = ReferenceTarget(text)
    try expect(
      ReferenceTarget(target.text).keys == target.keys, "the target differs: \(target.text)")
    let encoded = URLPath.encoded(text)
    try expect(
      (try? URLPath.decoded(encoded))?.hasSameBytes(as: text) == true, "the path differs: \(text)")
    _ = try? URLPath.decoded(text)
    guard let (endpoint, path) = try? Endpoint.parse(text) else { return false }
    let again = try? Endpoint.parse(endpoint.text + path + endpoint.querySuffix)
    try expect(
      again?.endpoint == endpoint && again?.path.hasSameBytes(as: path) == true,
      "the endpoint differs: \(endpoint.text + path + endpoint.querySuffix)")
    _ = endpoint.redirected(to: path)
    return true
  }

  /// Values of the server, as an application reads them.
  static let clientValues = FuzzedDecoder(
    name: "client-values",
    sources: [
      "Client/CanopyClient/Values/AnyValue.swift", "Client/CanopyClient/Values/NodeDecoder.swift",
      "Client/CanopyClient/Values/Database+Decoder.swift",
      "Client/CanopyClient/Values/SnakeCase.swift",
    ]
  ) { input in
    guard let value = try? input.withUnsafeBytes({ try WriteValue(json: $0) }) else { return false }
    let plain = AnyValue.value(of: value.node)
    _ = try? AnyValue.write(plain)
    // Keys that are canonically equivalent are one key in a dictionary.
    if input.allSatisfy({ $0 < 0x80 }), !input.contains(UInt8(ascii: "\\")) {
      let exported = AnyValue.value(of: value.node, export: true)
      try expect(
        (try? AnyValue.write(exported).node) == value.node, "the value differs: \(input.shown)")
    }
    let decoder = Database.Decoder()
    for strategies in 0..<2 {
      if strategies == 1 {
        decoder.dateDecodingStrategy = .iso8601
        decoder.dataDecodingStrategy = .deferredToData
        decoder.keyDecodingStrategy = .convertFromSnakeCase
        decoder.nonConformingFloatDecodingStrategy = .convertFromString(
          positiveInfinity: "inf", negativeInfinity: "-inf", nan: "nan")
      }
      _ = try? decoder.decode(FuzzedValue.self, from: plain)
      _ = try? decoder.decode([FuzzedValue].self, from: plain)
      _ = try? decoder.decode([String: FuzzedValue].self, from: plain)
      _ = try? decoder.decode([Int: Decimal].self, from: plain)
    }
    return value.node.isBranch
  }
}

/// A value with members of each kind. Each of them is missing if the value has another kind.
private struct FuzzedValue: Decodable {
  private enum Member: String, CodingKey, CaseIterable {
    case a, b, oneTwo, n, date, data, url
  }

  init(from decoder: any Decoder) throws {
    if let value = try? decoder.singleValueContainer() {
      _ = value.decodeNil()
      _ = try? value.decode(Bool.self)
      _ = try? value.decode(UInt64.self)
      _ = try? value.decode(Int8.self)
      _ = try? value.decode(Float.self)
      _ = try? value.decode(Decimal.self)
      _ = try? value.decode(Date.self)
      _ = try? value.decode(Data.self)
      _ = try? value.decode(URL.self)
      _ = try? value.decode(String.self)
    }
    if var list = try? decoder.unkeyedContainer() {
      while !list.isAtEnd {
        let index = list.currentIndex
        _ = try? list.decodeNil()
        if list.currentIndex == index { _ = try? list.decode(FuzzedValue.self) }
        // An element that cannot be decoded stays the next one.
        if list.currentIndex == index { break }
      }
    }
    let members = try decoder.container(keyedBy: Member.self)
    for member in Member.allCases where members.contains(member) {
      _ = try? members.decodeNil(forKey: member)
      _ = try? members.decodeIfPresent(FuzzedValue.self, forKey: member)
      _ = try? members.nestedUnkeyedContainer(forKey: member)
    }
  }
}
