import Foundation
import Testing

/// The samples of the README for programs in Swift.
struct ReadmeSwiftTests {
  private static let path = "Tests/CanopyClientSampleTests/ReadmeSamples.swift"

  @Test func `every Swift sample of the README is part of a test that runs it`() throws {
    let blocks = try Readme().blocks.filter { $0.language == "swift" }
    #expect(blocks.count >= 5)
    let source = try Repository.text(Self.path)
    for block in blocks {
      // In the source they stand inside a type.
      let text = block.lines.map { $0.isEmpty ? "" : "  " + $0 }.joined(separator: "\n")
      #expect(source.contains("\n" + text + "\n"), "line \(block.firstLine) of the README")
    }
    let tests = try Repository.text("Tests/CanopyClientSampleTests/SampleTests.swift")
    for function in source.matches(of: /static func (\w+)/) {
      #expect(tests.contains("ReadmeSamples.\(function.1)"), "\(function.1) is not run")
    }
  }
}
