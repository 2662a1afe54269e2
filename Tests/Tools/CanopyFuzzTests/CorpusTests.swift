import CanopyTesting
import Foundation
import Testing

@testable import CanopyFuzz

/// Valid and invalid inputs of each decoder. `Scripts/fuzz-coverage --keep` replaces them by others that reach more.
@Suite(.timeLimit(.minutes(20))) struct CorpusTests {
  private static let folder = "Tests/Tools/CanopyFuzzTests/Corpus"

  private static func inputs(of decoder: String) throws -> [(name: String, bytes: [UInt8])] {
    let folder = Checkout.root.appending(path: "\(Self.folder)/\(decoder)")
    return try FileManager.default.contentsOfDirectory(atPath: folder.path).sorted().map {
      ($0, Array(try Data(contentsOf: folder.appending(path: $0))))
    }
  }

  @Test(arguments: FuzzedDecoder.all.map(\.name))
  func `each kept input has the properties of its decoder`(name: String) async throws {
    let decoder = try #require(FuzzedDecoder.named(name))
    var accepted = 0
    let inputs = try Self.inputs(of: name)
    for input in inputs {
      do {
        if try await decoder.accepts(input.bytes) { accepted += 1 }
      } catch { Issue.record("\(name)/\(input.name): \(error)") }
    }
    // Otherwise the inputs would not reach the parts of the decoder, and the properties would not be checked.
    #expect(accepted > 0 && accepted < inputs.count)
  }

  @Test(arguments: FuzzedDecoder.all.map(\.name))
  func `the beginnings of each kept input have the properties of its decoder`(name: String)
    async throws
  {
    let decoder = try #require(FuzzedDecoder.named(name))
    for input in try Self.inputs(of: name) {
      for count in stride(from: 0, to: input.bytes.count, by: max(1, input.bytes.count / 16)) {
        do { _ = try await decoder.accepts(Array(input.bytes.prefix(count))) } catch {
          Issue.record("\(name)/\(input.name), \(count) bytes: \(error)")
        }
      }
    }
  }

  @Test(arguments: ["tail", "log", "backup", "salvage", "small-files", "http", "identity"])
  func `inputs that are checked at the same time do not disturb each other`(name: String)
    async throws
  {
    let decoder = try #require(FuzzedDecoder.named(name))
    let inputs = try Self.inputs(of: name).map(\.bytes)
    var results: [Bool?] = []
    for input in inputs { results.append(try? await decoder.accepts(input)) }
    let expected = results
    await withTaskGroup(of: Bool.self) { group in
      for first in 0..<4 {
        group.addTask {
          for index in inputs.indices {
            let index = (index + first) % inputs.count
            if (try? await decoder.accepts(inputs[index])) != expected[index] { return false }
          }
          return true
        }
      }
      for await isSame in group { #expect(isSame) }
    }
  }

  @Test func `the kept inputs are small, and each folder belongs to a decoder`() throws {
    let root = Checkout.root.appending(path: Self.folder)
    let names = try FileManager.default.contentsOfDirectory(atPath: root.path)
    #expect(Set(names) == Set(FuzzedDecoder.all.map(\.name)))
    #expect(FuzzedDecoder.all.count == names.count)
    let bytes = try names.flatMap { try Self.inputs(of: $0) }.reduce(0) { $0 + $1.bytes.count }
    #expect(bytes <= 200_000)
  }

  @Test
  func
    `the article about tests has a row of figures for each decoder, with the inputs that are kept`()
    throws
  {
    let article = try String(
      contentsOf: Checkout.root.appending(path: "Sources/Documentation.docc/Testing.md"),
      encoding: .utf8)
    let titles =
      "| Decoder | Seconds | Inputs | Kept | Bytes | Edges | Features | Regions | Reached |"
    let lines = article.split(separator: "\n", omittingEmptySubsequences: false)
    let first = try #require(lines.firstIndex { $0.utf8.elementsEqual(titles.utf8) })
    var names: [String] = []
    var sums = Array(repeating: 0, count: 4)
    for line in lines[first...].dropFirst(2).prefix(while: { $0.utf8.first == UInt8(ascii: "|") }) {
      let cells = line.split(separator: "|").map { $0.trimmingCharacters(in: .whitespaces) }
      try #require(cells.count == 9, "\(line)")
      let numbers = cells[1...4].map { Int($0.filter { $0 != "," }) ?? 0 }
      guard cells[0] != "all" else {
        #expect(numbers == sums)
        continue
      }
      sums = zip(sums, numbers).map { $0 + $1 }
      let name = cells[0].trimmingCharacters(in: ["`"])
      names.append(name)
      let inputs = try Self.inputs(of: name)
      let bytes = inputs.reduce(0) { $0 + $1.bytes.count }
      #expect(numbers[2...] == [inputs.count, bytes], "\(name)")
    }
    #expect(names.sorted() == FuzzedDecoder.all.map(\.name).sorted())
  }

  @Test func `the source files of the decoders exist`() {
    for path in FuzzedDecoder.all.flatMap(\.sources) {
      let file = Checkout.root.appending(path: "Sources/\(path)")
      #expect(FileManager.default.fileExists(atPath: file.path), "\(path)")
    }
  }

  @Test func `a property that does not hold is found`() {
    #expect(throws: Finding.self) { try expect(1 == 2, "the numbers differ") }
    #expect(FuzzedDecoder.named("nothing") == nil)
  }
}
