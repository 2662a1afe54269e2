import CanopyWire
import CanopyTesting
import Foundation
import Testing

@Suite(.timeLimit(.minutes(20))) struct ProtocolReferenceTests {
  private static let file = Checkout.root.appending(path: ProtocolReference.path)

  @Test func `the protocol reference is the one that the command table gives`() throws {
    if ProcessInfo.processInfo.environment["CANOPY_RENEW"] == "1" {
      try Data(ProtocolReference.text.utf8).write(to: Self.file, options: .atomic)
    }
    let written = try String(contentsOf: Self.file, encoding: .utf8)
    let expected = ProtocolReference.text
    let line = zip(written.split(separator: "\n"), expected.split(separator: "\n"))
      .first { $0 != $1 }
    #expect(
      written == expected,
      """
      \(ProtocolReference.path) is stale: \(line.map { "it has \($0), not \($1)" } ?? "its length differs").
      To renew it: \(ProtocolReference.renewal)
      """)
  }

  @Test func `every option has its meaning in the reference, and no other word has one`() {
    let names = Set(Sample.all.flatMap { ProtocolReference.optionNames(of: $0) })
    #expect(
      Set(ProtocolReference.options.keys) == names,
      "the options are in Tests/Core/CanopyWireTests/ProtocolReference.swift")
    #expect(names.isSuperset(of: ["before", "events", "limit", "since", "etag", "orderBy"]))
  }
}
