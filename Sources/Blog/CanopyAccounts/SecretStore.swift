/// Keeps secrets that all nodes of a server need: the keys of identity tokens, and the administrator's token.
///
/// A server with one node keeps them in files of its data folder instead.
public protocol SecretStore: Sendable {
  /// Returns the secret with a name, or nil if the store has no such secret.
  func secret(_ name: String) async throws -> [UInt8]?

  /// Stores a secret, unless there is one with the name.
  ///
  /// - Returns: the stored secret, which may be that of another node. It is durable.
  func insertSecret(_ name: String, _ secret: [UInt8]) async throws -> [UInt8]
}
