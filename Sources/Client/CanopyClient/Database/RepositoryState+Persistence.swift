internal import CanopyTree
internal import Dispatch
internal import Logging
internal import Synchronization

/// The state that survives a restart: the received data, the pending writes, the client names, and
/// the session.
final class Persistence: Sendable {
  let store: any PersistenceStore
  let journal: WriteJournal
  let folder: String
  /// The queue of the store, whose calls block.
  let queue = DispatchQueue(label: "canopy.client.persistence")
  /// The changes to record, in order.
  private let waiting = Mutex<(changes: [StateChange], takeCount: Int)>(([], 0))

  init(folder: String, bytesMax: Int) throws {
    self.folder = folder
    store = try SQLitePersistence(path: folder + "/client.sqlite", bytesMax: bytesMax)
    journal = try WriteJournal(folder: folder)
  }

  /// Returns the state that earlier processes left, with the changes of which the store has not heard.
  func load() throws -> SavedState {
    var saved = try store.load()
    let noted = journal.read()
    // The store counts a write that was removed too: its number must not be used again.
    let changes: [StateChange] =
      noted.writes.filter { $0.id > saved.lastWrite }
      .map { .writeAdded($0.id, $0.write, milliseconds: $0.milliseconds) }
      + noted.removed.map { .writeRemoved($0) }
    if !changes.isEmpty {
      _ = try store.record(changes)
      saved = try store.load()
    }
    journal.clear()
    return saved
  }

  /// Adds changes to record. Returns whether the queue was empty; then the caller schedules `take`.
  func add(_ changes: [StateChange]) -> Bool {
    waiting.withLock {
      let isAll = $0.changes.isEmpty
      $0.changes += changes
      return isAll
    }
  }

  /// Removes and returns all waiting changes, for one transaction. Changes that arrive while the
  /// disk is busy share the next one.
  func take() -> [StateChange] {
    waiting.withLock { waiting in
      var changes: [StateChange] = []
      swap(&changes, &waiting.changes)
      waiting.takeCount += 1
      return changes
    }
  }

  /// The number of calls of `take`.
  var takeCount: Int { waiting.withLock { $0.takeCount } }

  /// Returns the text of a file; nil if it does not exist.
  func read(_ name: String) -> String? {
    try? String(contentsOfFile: folder + "/" + name, encoding: .utf8)
  }

  /// Writes a text to a file that only the user may read; nil removes the file.
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

  /// Restores the state of an earlier process, and records changes from now on.
  ///
  /// - Throws: an error if that is not possible; the database then works without persistence.
  func enablePersistence(folder: String, bytesMax: Int) throws {
    guard persistence == nil else { return }
    if let ending { throw PersistenceError(ending.sentence) }
    guard registrations.isEmpty, writeCompletions.isEmpty, lastListener == 0, !hasWritten else {
      throw PersistenceError("persistence must be enabled before the database is used")
    }
    let persistence = try Persistence(
      folder: folder + "/\(endpoint.folderName)", bytesMax: bytesMax)
    let saved = try persistence.load()
    let last = saved.writes.map { writeNumbers.number(of: $0.id) }.max() ?? 0
    writeNumbers.restore(
      persistence.read(Self.namesFile) ?? "", pending: saved.writes.map(\.id), after: last)
    try persistence.write(writeNumbers.namesText, to: Self.namesFile)
    if let text = persistence.read(Self.sessionFile), let user = SavedSession(text) {
      for body in session.set(user.user, token: user.token) { call(body) }
    }
    tree = SyncTree(restoring: saved)
    self.persistence = persistence
    owner?.isPersistent.store(true, ordering: .releasing)
    // A login may have connected already.
    if phase.isReady { perform(tree.connected()) }
    if !saved.writes.isEmpty { connectIfWanted() }
  }

  /// Records the collected changes, after all earlier ones.
  func record() {
    guard !changes.isEmpty else { return }
    guard let persistence, let owner else { return changes.removeAll() }
    let logger = options.logger
    let isFirst = persistence.add(changes)
    // After `add`, because the store then records the writes in both files of the journal.
    do { try persistence.journal.note(changes) } catch {
      logger.error(
        "a write, or its end, is not recorded yet, and may be lost with the process",
        metadata: ["error": "\(error)"])
    }
    changes = []
    guard isFirst else { return }
    persistence.queue.async { [weak owner] in
      persistence.journal.turn()
      let changes = persistence.take()
      do {
        let dropped = try persistence.store.record(changes)
        persistence.journal.clearOlder()
        let removed = changes.compactMap { change in
          if case .writeRemoved(let id) = change { id } else { nil }
        }
        owner?.useLater { state in
          state.tree.forget(dropped)
          // The server may forget a write only once a crash can no longer cause it to be sent
          // again.
          for id in removed { state.writeNumbers.endWrite(state.writeNumbers.number(of: id)) }
        }
      } catch {
        logger.error("persistent state was not recorded", metadata: ["error": "\(error)"])
      }
    }
  }

  /// Records the session, before the caller of a sign-in hears of it: the writes that follow need it after a restart.
  func recordSession() {
    guard let persistence else { return }
    let text = session.user.flatMap { user in
      session.token.map { SavedSession(user: user, token: $0).text }
    }
    do { try persistence.write(text, to: Self.sessionFile) } catch {
      options.logger.error("the session was not kept", metadata: ["error": "\(error)"])
    }
  }
}

extension Database {
  /// Returns when all earlier changes survive a restart; at once without persistence.
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
package struct SavedSession {
  package var user: User
  package var token: String

  init(user: User, token: String) {
    self.user = user
    self.token = token
  }

  package init?(_ text: String) {
    guard let value = try? JSONValue(json: text), let uid = value["uid"]?.string,
      let token = value["token"]?.string
    else { return nil }
    let isAdministrator = value["administrator"] == .leaf(true)
    user = User(
      uid: uid, email: value["email"]?.string, displayName: value["name"]?.string,
      isAdministrator: isAdministrator, isAnonymous: value["anonymous"] == .leaf(true),
      isEmailVerified: value["verified"] == .leaf(true),
      details: UserDetails(
        photoURL: value["photo"]?.string,
        createdAt: value["created"]?.string.flatMap { Int64($0) },
        lastLoginAt: value["login"]?.string.flatMap { Int64($0) },
        hasPassword: value["password"] == .leaf(true)))
    self.token = token
  }

  package var text: String {
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
    let details = user.details
    if let photo = details.photoURL {
      output.append(",\"photo\":")
      output.append(string: photo)
    }
    if let time = details.createdAt { output.append(raw: ",\"created\":\"\(time)\"") }
    if let time = details.lastLoginAt { output.append(raw: ",\"login\":\"\(time)\"") }
    if details.hasPassword { output.append(",\"password\":true") }
    output.append(",\"administrator\":")
    output.append(user.isAdministrator ? "true" : "false")
    if user.isAnonymous { output.append(",\"anonymous\":true") }
    if user.isEmailVerified { output.append(",\"verified\":true") }
    output.append(",\"token\":")
    output.append(string: token)
    output.append("}")
    return output.text
  }
}
