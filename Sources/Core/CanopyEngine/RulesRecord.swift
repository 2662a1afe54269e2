/// The rules in force, and the commit after which they came into force.
///
/// A client resumes over commits only if the rules that authorize it now were in force for those commits as well. So
/// this must survive a restart.
public struct RulesRecord: Sendable, Equatable {
  /// The origins of rules.
  public enum Origin: String, Sendable {
    /// The rules of a database without a file of rules. Another version of the program may have others.
    case initial
    /// The file of rules. If it is missing, it was lost.
    case file
  }

  /// The origin of the rules and the checksum of their text, as in `file:…`. Older versions did not store the origin.
  public var digest: String
  /// The sequence number of the last commit before the rules came into force.
  public var sequence: Int64

  /// Creates a record.
  public init(digest: String, sequence: Int64) {
    self.digest = digest
    self.sequence = sequence
  }

  /// Creates a record of rules of an origin.
  ///
  /// - Parameter checksum: the checksum of their text; empty while they are replaced.
  public init(_ origin: Origin, checksum: String = "", sequence: Int64) {
    self.init(digest: origin.rawValue + ":" + checksum, sequence: sequence)
  }

  /// The origin of the rules; nil if an older version wrote the record.
  public var origin: Origin? {
    digest.utf8.firstIndex(of: UInt8(ascii: ":")).flatMap {
      Origin(rawValue: String(digest[..<$0]))
    }
  }

  /// The checksum of the text; empty while rules are replaced.
  public var checksum: String {
    guard origin != nil, let colon = digest.utf8.firstIndex(of: UInt8(ascii: ":")) else {
      return digest
    }
    return String(digest[colon...].dropFirst())
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
