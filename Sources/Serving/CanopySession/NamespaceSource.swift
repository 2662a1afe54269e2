public import CanopyEngine
public import CanopyWire

/// The stored namespaces of a server, besides the default one.
public protocol NamespaceSource: Sendable {
  /// Returns whether a namespace exists, and whether it is created otherwise. Looks at the disk for a moment. A source that
  /// cannot know it without waiting for a database says what it knows.
  func availability(of name: NamespaceName) -> NamespaceAvailability

  /// Returns whether a namespace exists, for a caller that wants to open it. Blocks no thread of tasks.
  func find(_ name: NamespaceName) async -> NamespaceAvailability

  /// Returns the names of the stored namespaces besides the default one, in order. Blocks no thread of tasks.
  func names() async throws -> [NamespaceName]

  /// Opens a namespace. Blocks no thread of tasks.
  ///
  /// - Throws: an error whose description says what is wrong with the stored data.
  func open(_ name: NamespaceName) async throws -> NamespaceParts
}

extension NamespaceSource {
  /// Returns the availability.
  public func find(_ name: NamespaceName) async -> NamespaceAvailability { availability(of: name) }
}

/// Whether a namespace can be opened.
public enum NamespaceAvailability: Sendable, Equatable {
  /// The namespace exists.
  case stored
  /// The namespace does not exist. Opening creates it.
  case creatable
  /// The namespace does not exist, and there are as many as the server creates.
  case full(countMax: Int)
  /// The namespace exists, but its stored data is missing.
  case lost
  /// The namespace does not exist.
  case missing
}

/// The parts of an open namespace.
public struct NamespaceParts: Sendable {
  /// The engine, which does not run yet.
  public let engine: Engine
  /// Keeps on-disconnect writes.
  public let disconnectStore: any DisconnectStore
  /// The rules in force, which have begun.
  public let rules: RulesKeeper
  /// Closes the files. Called once, when the engine has stopped. Blocks no thread of tasks.
  public let close: @Sendable () async throws -> Void

  /// Creates the parts.
  public init(
    engine: Engine, disconnectStore: any DisconnectStore, rules: RulesKeeper,
    close: @escaping @Sendable () async throws -> Void
  ) {
    self.engine = engine
    self.disconnectStore = disconnectStore
    self.rules = rules
    self.close = close
  }
}
