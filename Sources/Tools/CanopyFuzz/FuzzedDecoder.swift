/// A decoder with the properties that each input must have.
///
/// libFuzzer looks for inputs that break a property or end the process (`LibFuzzer.swift`), and `CorpusTests` checks the
/// inputs that are kept in the repository. No check waits or uses threads, so an input has the same result each time.
struct FuzzedDecoder: Sendable {
  /// The name of the decoder, and of the folder with its inputs.
  let name: String
  /// The source files of which the coverage is measured, without the folder `Sources`.
  let sources: [String]
  /// Decodes an input and checks the properties. Returns whether the decoder accepts the input.
  ///
  /// Throws a `Finding` if a property does not hold.
  let check: @Sendable ([UInt8]) throws -> Bool

  /// All decoders.
  static let all: [FuzzedDecoder] = [
    .lines, .requests, .serverLines, .json, .rules, .patterns, .ruleCases, .commits, .checkpoint,
    .tail, .log, .backup, .clientMessages, .serverMessages, .messageFrames, .webSocket, .targets,
    .fields, .credentials,
  ]

  /// Returns the decoder with a name; nil if it does not exist.
  static func named(_ name: String) -> FuzzedDecoder? { all.first { $0.name == name } }

  /// The names and the source files, one decoder on each line.
  static var list: String {
    all.map { "\($0.name) \($0.sources.joined(separator: " "))\n" }.joined()
  }
}

/// A property that an input breaks.
struct Finding: Error, CustomStringConvertible {
  let description: String
}

/// Checks a property of an input.
///
/// - Throws: `Finding` with the sentence if the property does not hold.
func expect(_ holds: Bool, _ sentence: @autoclosure () -> String) throws(Finding) {
  guard holds else { throw Finding(description: sentence()) }
}

extension Sequence<UInt8> {
  /// The bytes as text, for a finding.
  var shown: String { String(decoding: Array(self), as: UTF8.self).debugDescription }
}
