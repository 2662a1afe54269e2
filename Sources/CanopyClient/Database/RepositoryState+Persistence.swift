internal import CanopyTree
internal import Dispatch
internal import Logging
internal import Synchronization

/// What survives a restart: the copy of what was told, the writes that are pending, the names under which
/// they were sent, and the session.
final class Persistence: Sendable {
  let store: any PersistenceStore
  let folder: String
  /// Where the store is used: its calls block.
  let queue = DispatchQueue(label: "canopy.client.persistence")
  /// What is to be recorded, in order.
  private let waiting = Mutex<(changes: [StateChange], takings: Int)>(([], 0))

  init(folder: String, bytesMax: Int) throws {
    self.folder = folder
    store = try SQLitePersistence(path: folder + "/client.sqlite", bytesMax: bytesMax)
  }

  /// Adds what is to be recorded. Returns whether that is all that waits: then somebody is to take it.
  func add(_ changes: [StateChange]) -> Bool {
    waiting.withLock {
      let isAll = $0.changes.isEmpty
      $0.changes += changes
      return isAll
    }
  }

  /// Takes all that waits, for one transaction: what comes while the disk is busy shares the next.
  func take() -> [StateChange] {
    waiting.withLock { waiting in
      var changes: [StateChange] = []
      swap(&changes, &waiting.changes)
      waiting.takings += 1
      return changes
    }
  }

  /// How many times was taken what waited.
  var takings: Int { waiting.withLock { $0.takings } }

  /// The text of a file; nil if there is none.
  func read(_ name: String) -> String? {
    try? String(contentsOfFile: folder + "/" + name, encoding: .utf8)
  }

  /// Puts a text into a file that nobody else may read, or removes it.
  func write(_ text: String?, to name: String) throws {
    let path = folder + "/" + name
    guard let text else {
      if FileManager.default.fileExists(atPath: path) {
        try FileManager.default.removeItem(atPath: path)
      }
      return
    }
    try Data(text.utf8).write(to: URL(fileURLWithPath: path), options: .atomic)
    try FileManager.default.setAttributes([.posixPermissions: 0o600], ofItemAtPath: path)
  }
}

extension RepositoryState {
  private static let namesFile = "names"
  private static let sessionFile = "session"

  /// Goes on from what an earlier process left, and keeps what happens from now on.
  ///
  /// - Throws: why that is not possible; then everything is as without persistence.
  func enablePersistence(folder: String, bytesMax: Int) throws {
    guard persistence == nil else { return }
    guard registrations.isEmpty, writeCompletions.isEmpty, lastListener == 0, !hasWritten else {
      throw PersistenceError("persistence must be enabled before the database is used")
    }
    let persistence = try Persistence(
      folder: folder + "/\(endpoint.host)_\(endpoint.port)", bytesMax: bytesMax)
    let saved = try persistence.store.load()
    let last = saved.writes.map { writeNumbers.number(of: $0.id) }.max() ?? 0
    writeNumbers.restore(
      persistence.read(Self.namesFile) ?? "", pending: saved.writes.map(\.id), after: last)
    try persistence.write(writeNumbers.namesText, to: Self.namesFile)
    if let text = persistence.read(Self.sessionFile), let user = SavedSession(text) {
      for body in session.set(user.user, token: user.token) { call(body) }
    }
    tree = SyncTree(restoring: saved)
    self.persistence = persistence
    if !saved.writes.isEmpty { connectIfWanted() }
  }

  /// Records what has changed, after all that was recorded before.
  func record() {
    guard !changes.isEmpty else { return }
    guard let persistence, let owner else { return changes.removeAll() }
    let isFirst = persistence.add(changes)
    changes = []
    guard isFirst else { return }
    let logger = options.logger
    persistence.queue.async { [weak owner] in
      let changes = persistence.take()
      do {
        let dropped = try persistence.store.record(changes)
        let removed = changes.compactMap { change in
          if case .writeRemoved(let id) = change { id } else { nil }
        }
        owner?.useLater { state in
          state.tree.forget(dropped)
          // Only what will not be sent again after a crash may be forgotten by the server.
          for id in removed { state.writeNumbers.sawWrite(state.writeNumbers.number(of: id)) }
        }
      } catch {
        logger.error("what should survive a restart was not kept", metadata: ["error": "\(error)"])
      }
    }
  }

  /// Keeps who is signed in.
  func recordSession() {
    guard let persistence else { return }
    let text = session.user.flatMap { user in
      session.token.map { SavedSession(user: user, token: $0).text }
    }
    let logger = options.logger
    persistence.queue.async {
      do { try persistence.write(text, to: Self.sessionFile) } catch {
        logger.error("the session was not kept", metadata: ["error": "\(error)"])
      }
    }
  }
}

extension Database {
  /// Returns when all that was done before survives a restart; at once where nothing is to.
  package func recorded() async {
    await withCheckedContinuation { continuation in
      repository.use { state in
        state.record()
        guard let persistence = state.persistence else { return continuation.resume() }
        persistence.queue.async { continuation.resume() }
      }
    }
  }
}

/// A session as a line of JSON.
private struct SavedSession {
  var user: User
  var token: String

  init(user: User, token: String) {
    self.user = user
    self.token = token
  }

  init?(_ text: String) {
    guard let value = try? JSONValue(json: text), let uid = value["uid"]?.string,
      let token = value["token"]?.string
    else { return nil }
    let isAdministrator = value["administrator"] == .leaf(true)
    user = User(
      uid: uid, email: value["email"]?.string, displayName: value["name"]?.string,
      isAdministrator: isAdministrator)
    self.token = token
  }

  var text: String {
    var output = JSONOutput()
    output.append("{\"uid\":")
    output.append(string: user.uid)
    if let email = user.email {
      output.append(",\"email\":")
      output.append(string: email)
    }
    if let name = user.displayName {
      output.append(",\"name\":")
      output.append(string: name)
    }
    output.append(",\"administrator\":")
    output.append(user.isAdministrator ? "true" : "false")
    output.append(",\"token\":")
    output.append(string: token)
    output.append("}")
    return output.text
  }
}
