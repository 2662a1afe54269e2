import CanopyTesting
import Foundation
import Testing

@testable import CanopyFuzz

/// The source files that decode bytes. Each must be named by a fuzzed decoder, whose inputs reach it.
struct DecodingFileTests {
  /// The files that decode bytes without a check of their own, by the reason.
  private static let exceptions: [String: [String]] = [
    "It hands bytes on to a decoder that has a check.": [
      "Client/CanopyClient/Values/Database+Coding.swift",
      "Serving/CanopyEvents/ClientProtocol.swift",
      "Serving/CanopyEvents/SessionHandler+Requests.swift",
      "Serving/CanopyGateway/Responder.swift", "Serving/CanopyGateway/Responder+Rules.swift",
      "Serving/CanopyGateway/Responder+Write.swift", "Serving/CanopyLineServer/LineHandler.swift",
      "Serving/CanopyRealtime/RealtimeHandler.swift",
      "Serving/CanopySession/Operations+Read.swift",
    ],
    "It takes optional members of JSON of the server, which `json` and `server-lines` check.": [
      "Client/CanopyClient/Auth/RepositoryState+IdentityRequests.swift",
      "Client/CanopyClient/Connection/RealtimeTransport.swift",
      "Client/CanopyClient/Connection/RepositoryState+Realtime.swift",
      "Client/CanopyClient/Connection/RepositoryState+Replies.swift",
      "Client/CanopyClient/Connection/ServerRequest.swift",
    ],
    "It belongs to `canopy`, which a release build cannot import, and uses decoders with checks.": [
      "Serving/canopy/AdministratorConnection.swift", "Serving/canopy/Import.swift",
      "Serving/canopy/Rules.swift", "Serving/canopy/Seed.swift", "Serving/canopy/User.swift",
    ],
    "It needs the C library of PostgreSQL; `commits` and `checkpoint` check the texts of its rows.":
      [
        "Storage/CanopyPostgres/ClientWriteRows.swift", "Storage/CanopyPostgres/CommitRow.swift",
        "Storage/CanopyPostgres/Loading.swift", "Storage/CanopyPostgres/PostgresLeaves.swift",
        "Storage/CanopyPostgres/PostgresStore+Checkpoint.swift",
        "Storage/CanopyPostgres/PostgresStore+Read.swift", "Storage/CanopyPostgres/Rows.swift",
      ],
    "It compares texts, which any bytes may be.": ["Core/CanopyTree/TextOrder.swift"],
    "Its bytes are those of this process.": [
      "Core/CanopyRealtimeWire/SharedFrames.swift", "Core/CanopyTree/EncodedNode.swift",
      "Core/CanopyTree/NodeDigest.swift", "Serving/CanopyEvents/LargeEvent.swift",
    ],
    "The library of TLS decodes the file.": ["Serving/CanopyEvents/TLSCertificate.swift"],
    "It counts the elements of a text, and decodes none.": [
      "Serving/CanopySession/JSONElements.swift"
    ],
  ]

  /// Whether code decodes bytes: it declares an initializer from bytes, or a function that decodes or parses; or it calls
  /// one of the readers of JSON, of rows, of Base64, of UTF-8 or of numbers.
  private static func decodes(_ code: String) -> Bool {
    code.range(of: pattern, options: .regularExpression) != nil
  }

  private static let pattern = [
    #"\binit[?!]?\(\s*\w+( \w+)?:\s*(\[UInt8\]|UnsafeRawBufferPointer|ArraySlice<UInt8>|ByteBuffer)"#,
    #"\bfunc (decode|parse|feed)\w*\s*(<[^>]*>)?\("#,
    #"\b(JSONValue|WriteValue|Node|Request)\(\s*(json|bytes|reading|line):"#,
    #"\b(JSONReader|JSONMembers)\(|\bJSONReader\.read"#,
    #"\b(AssignmentCodec|BeforeImageCodec|Base64)\.decode"#,
    #"\bloadUnaligned\(|\bString\(\s*validating:"#,
  ].joined(separator: "|")

  /// The Swift files without those of tools, and their code without comments, by the path in `Sources`.
  private static func sources() throws -> [String: String] {
    let root = Checkout.root.appending(path: "Sources")
    let paths = try FileManager.default.subpathsOfDirectory(atPath: root.path)
      .filter { $0.hasSuffix(".swift") && !$0.hasPrefix("Tools/") }
    return try Dictionary(
      uniqueKeysWithValues: paths.map { path in
        let text = try String(contentsOf: root.appending(path: path), encoding: .utf8)
        let lines = text.utf8.split(separator: UInt8(ascii: "\n")).map { Substring($0) }
        return (
          path,
          lines.map { line in
            String(line.firstRange(of: "//").map { line[..<$0.lowerBound] } ?? line)
          }.joined(separator: "\n")
        )
      })
  }

  @Test func `each source file that decodes bytes is named by a fuzzed decoder`() throws {
    let decoding = Set(try Self.sources().filter { Self.decodes($0.value) }.keys)
    let checked = Set(FuzzedDecoder.all.flatMap(\.sources))
    let exceptions = Self.exceptions.values.flatMap { $0 }
    #expect(decoding.count > 90)
    #expect(
      decoding.subtracting(checked).subtracting(exceptions).sorted() == [],
      "add a check to CanopyFuzz, or the file to the sources of the check that reaches it")
    // An exception that decodes nothing, or has a check, must not stay.
    #expect(Set(exceptions).subtracting(decoding).sorted() == [])
    #expect(Set(exceptions).intersection(checked).sorted() == [])
    #expect(Set(exceptions).count == exceptions.count)
  }

  @Test(arguments: [
    "init(_ bytes: [UInt8]) {", "init?(json: UnsafeRawBufferPointer)",
    "static func parse(_ text: String)",
    "try JSONValue(json: text)", "Base64.decode(text)", "bytes.loadUnaligned(as: Int64.self)",
  ])
  func `a file with such code decodes bytes`(code: String) {
    #expect(Self.decodes(code))
  }

  @Test(arguments: ["init(_ text: Int)", "func append(_ bytes: [UInt8])", "let text = node.json()"])
  func `other code decodes nothing`(code: String) {
    #expect(!Self.decodes(code))
  }
}
