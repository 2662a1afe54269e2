/// The rules in force, and since when.
///
/// A client that resumes is told what commits changed only if the rules that judge it now judged those
/// commits too. So this must survive a restart.
public struct RulesRecord: Sendable, Equatable {
  /// A hash of the text of the rules.
  public var digest: String
  /// The sequence number of the last commit before the rules came into force.
  public var sequence: Int64

  /// A record.
  public init(digest: String, sequence: Int64) {
    self.digest = digest
    self.sequence = sequence
  }
}

/// Keeps the record of the rules in force beside the commits that they judged.
public protocol RulesRecordStore: Sendable {
  /// Returns the record; nil if there is none.
  ///
  /// - Throws: the store's error when it cannot be read.
  func rulesRecord() async throws -> RulesRecord?

  /// Replaces the record, or removes it. The change is durable when this returns.
  ///
  /// - Throws: the store's error; then the record is the old one or the new one.
  func setRulesRecord(_ record: RulesRecord?) async throws
}
