import ArgumentParser
import Foundation

/// The files to which a command writes its report.
struct ReportFiles: ParsableArguments {
  @Option(help: "The file to write the tables to.") var markdown: String?
  @Option(help: "The file to write all numbers to.") var json: String?

  /// Prints the tables, and writes the files that the options name.
  func write(_ tables: String, _ report: some Encodable) throws {
    print("\n" + tables)
    if let markdown { try tables.write(toFile: markdown, atomically: true, encoding: .utf8) }
    guard let json else { return }
    let encoder = JSONEncoder()
    encoder.outputFormatting = [.prettyPrinted, .sortedKeys]
    try encoder.encode(report).write(to: URL(fileURLWithPath: json))
  }
}
