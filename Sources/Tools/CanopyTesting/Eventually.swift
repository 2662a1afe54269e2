internal import Foundation
public import Testing

/// Waits until a condition is true, and lets other tasks run meanwhile. The test's time limit is the deadline.
///
/// A test whose condition stays false fails with the source lines of the condition.
///
/// - Parameter isTrue: the condition. It is evaluated many times, so it must be cheap.
/// - Throws: `CancellationError` when the time is over, and any error of the condition.
public func eventually(
  sourceLocation: SourceLocation = #_sourceLocation, filePath: String = #filePath,
  isolation: isolated (any Actor)? = #isolation, _ isTrue: () async throws -> Bool
) async throws {
  while try await !isTrue() {
    if Task.isCancelled {
      Issue.record(
        "this condition stayed false until the time was over: \(sourceText(filePath, from: sourceLocation.line))",
        sourceLocation: sourceLocation)
      throw CancellationError()
    }
    await Task.yield()
  }
}

/// Returns the lines of a source file from one line to the line that closes its braces.
private func sourceText(_ path: String, from first: Int) -> String {
  let text = (try? String(contentsOfFile: path, encoding: .utf8)) ?? ""
  let lines = text.split(separator: "\n", omittingEmptySubsequences: false)
  var depth = 0
  var shown: [String] = []
  for line in lines.dropFirst(first - 1).prefix(12) {
    shown.append(line.trimmingCharacters(in: .whitespaces))
    depth += line.count { $0 == "{" } - line.count { $0 == "}" }
    if depth <= 0 { break }
  }
  return shown.joined(separator: " ")
}
