/// A decoder with the properties that each input must have.
///
/// libFuzzer looks for inputs that break a property or end the process (`LibFuzzer.swift`), and `CorpusTests` checks the
/// inputs that are kept in the repository. An input has the same result each time: only the checks of a store and of the
/// identity service wait for other threads, and these do nothing else.
struct FuzzedDecoder: Sendable {
  /// Decodes an input and checks the properties. Returns whether the decoder accepts the input. Throws a `Finding` if a
  /// property does not hold.
  enum Check: Sendable {
    case immediate(@Sendable ([UInt8]) throws -> Bool)
    case suspending(@Sendable ([UInt8]) async throws -> Bool)
  }

  /// The name of the decoder, and of the folder with its inputs.
  let name: String
  /// The source files of which the coverage is measured, without the folder `Sources`.
  let sources: [String]
  let check: Check

  init(
    name: String, sources: [String], check: @escaping @Sendable ([UInt8]) throws -> Bool
  ) {
    (self.name, self.sources, self.check) = (name, sources, .immediate(check))
  }

  init(
    name: String, sources: [String],
    suspendingCheck: @escaping @Sendable ([UInt8]) async throws -> Bool
  ) {
    (self.name, self.sources, check) = (name, sources, .suspending(suspendingCheck))
  }

  /// Runs the check.
  func accepts(_ input: [UInt8]) async throws -> Bool {
    switch check {
    case .immediate(let check): try check(input)
    case .suspending(let check): try await check(input)
    }
  }

  /// All decoders.
  static let all: [FuzzedDecoder] = [
    .lines, .requests, .serverLines, .json, .rules, .patterns, .ruleCases, .commits, .checkpoint,
    .tail, .log, .backup, .clientMessages, .serverMessages, .messageFrames, .webSocket, .targets,
    .fields, .credentials, .salvage, .databaseHead, .database, .smallFiles, .keptWrites, .http,
    .identity,
    .clientFiles, .clientDatabase, .identityReplies, .clientURLs, .clientValues,
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
