import Foundation
import Testing

/// The Swift samples of README.md and of the articles.
struct SwiftSampleTests {
  private static let path = "Tests/Client/CanopyClientSampleTests/DocumentedSamples.swift"

  @Test func `every Swift sample of a document is part of a test that runs it`() throws {
    let source = try Repository.text(Self.path)
    var count = 0
    for document in try Document.all() {
      for block in document.blocks where block.language == "swift" {
        // In the source they are members of a type.
        let text = block.lines.map { $0.isEmpty ? "" : "  " + $0 }.joined(separator: "\n")
        #expect(
          source.contains("\n" + text + "\n"),
          "\(document.path):\(block.firstLine): this sample is not in \(Self.path)")
        count += 1
      }
    }
    #expect(count >= 5)
    let tests = try Repository.text("Tests/Client/CanopyClientSampleTests/SampleTests.swift")
    for function in source.matches(of: /static func (\w+)/) {
      #expect(tests.contains("DocumentedSamples.\(function.1)"), "\(function.1) is not run")
    }
  }
}
