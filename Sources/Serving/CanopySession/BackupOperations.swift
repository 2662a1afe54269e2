/// The backups of a server, for its administrator.
public protocol BackupOperations: Sendable {
  /// Makes a backup, and describes it when it is complete.
  ///
  /// - Throws: `WireError`, also if another backup is being made.
  func make() async throws -> ReplyJSON

  /// Describes the stored backups, and the progress of the present one.
  ///
  /// - Throws: `WireError` if they cannot be listed.
  func list() async throws -> ReplyJSON
}
