/// The rules in force, and the commit after which they came into force.
///
/// A client resumes over commits only if the rules that authorize it now were in force for those commits as well. So
/// this must survive a restart.
public struct RulesRecord: Sendable, Equatable {
  /// A hash of the text of the rules.
  public var digest: String
  /// The sequence number of the last commit before the rules came into force.
  public var sequence: Int64

  /// Creates a record.
  public init(digest: String, sequence: Int64) {
    self.digest = digest
    self.sequence = sequence
  }
}

/// Keeps the record of the rules in force beside the commits, so that a backup has both.
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
