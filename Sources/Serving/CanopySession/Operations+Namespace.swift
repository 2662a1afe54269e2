public import CanopyEngine
internal import CanopyTree
public import CanopyWire

/// The databases of a server: `default`, which has the blog and the accounts, and others.
extension Operations {
  /// Whether the database has the blog.
  var hasBlog: Bool { home == nil }

  /// The tree with the profiles of users: that of the default namespace.
  var profiles: Node { (home ?? self).engine.root }

  /// Opens a namespace if it is not open, and keeps it open for the caller.
  ///
  /// - Parameter turns: the connection of the request and its network; nil for a request of the server.
  /// - Throws: `WireError` if the name is invalid, the namespace does not exist or cannot be opened, or too many are in
  ///   use.
  public func lease(
    ofNamespace name: String, turns: TurnGroup? = nil
  ) async throws(WireError) -> NamespaceLease {
    try await lease(of: try NamespaceName(name), turns: turns)
  }

  /// Opens a namespace if it is not open, and keeps it open for the caller.
  ///
  /// - Parameter turns: the connection of the request and its network; nil for a request of the server.
  /// - Throws: `WireError` if the namespace does not exist or cannot be opened, or too many are in use.
  public func lease(
    of name: NamespaceName, turns: TurnGroup? = nil
  ) async throws(WireError) -> NamespaceLease {
    let home = home ?? self
    if name == .default { return NamespaceLease(home, whenReleased: nil) }
    return try await namespaces.lease(name, of: home, for: turns)
  }

  /// Whether a namespace does not exist yet, on a server that creates namespaces by itself. A read must not create it.
  ///
  /// - Throws: `WireError` if the name is invalid.
  public func isUncreated(namespace name: String) throws(WireError) -> Bool {
    let name = try NamespaceName(name)
    return name != .default && namespaces.isUncreated(name)
  }

  /// Opens a namespace for a connection.
  func use(_ name: NamespaceName, _ turns: TurnGroup?) async -> Session.Completion {
    do throws(WireError) {
      let lease = try await lease(of: name, turns: turns)
      var completion = Session.Completion(.json(.text("\(name)")))
      completion.namespace = lease
      return completion
    } catch {
      return Session.Completion(error)
    }
  }

  /// - Throws: `WireError` if the database has no blog.
  func requireBlog() throws(WireError) {
    guard !hasBlog else { return }
    throw WireError(
      .notFound, "the namespace \(namespace) has no blog; the blog is in the namespace default")
  }

  /// Whether no on-disconnect write waits for another try.
  var isIdle: Bool { disconnectRetries.count == 0 && preparedEnds.count == 0 }
}
