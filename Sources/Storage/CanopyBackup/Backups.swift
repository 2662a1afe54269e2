internal import CanopySQLite
internal import CanopySystem
public import CanopyWire
internal import Foundation
public import Logging
internal import Synchronization

/// The backups of a running server, in the folder `backups` of its data folder.
///
/// One backup is made at a time, on a thread of its own that stands back when all cores are busy. The newest backups of
/// each kind are kept. So requests of the administrator neither fill the disk nor remove the backups of the schedule.
///
/// Safe to use from any thread.
public final class Backups: Sendable {
  /// The settings.
  public struct Settings: Sendable {
    /// The time between two backups of the schedule; nil for no schedule.
    public var every: Duration?
    /// The number of backups of each kind that are kept.
    public var kept = 7

    /// Creates the default settings: no schedule.
    public init() {}
  }

  /// The backups that this process has made.
  public struct Counts: Equatable, Sendable {
    /// The number of backups.
    public var made = 0
    /// The number of backups that failed.
    public var failed = 0
    /// The number of these for which too little space would have stayed free.
    public var lowOnSpace = 0
    /// The duration of the last backup.
    public var lastDuration: Duration?
    /// The sentence of the last failure; nil if the last backup succeeded.
    public var lastFailure: String?
    /// The work of the present backup; nil if no backup is being made.
    public var progress: BackupProgress?
  }

  private struct State {
    var counts = Counts()
    /// The number of backups of the schedule that failed since the last one that succeeded.
    var failuresInRow = 0
    var isMaking = false
    var isStopping = false
    /// The id of the data folder, after its first use.
    var id: String?
    var lock: BackupLock?
    var hasReportedOthers = false
  }

  /// The name of the folder in the data folder.
  public static let folderName = "backups"
  /// The beginning of the name of the folder in which a backup is made, before the id of the data folder. No backup has
  /// such a name. Earlier versions made all backups in the folder with this name.
  private static let workName = ".making"
  /// The time after a failed backup of the schedule until the next try. It doubles with each further failure, because each
  /// try copies the database.
  private static let retryMin = Duration.seconds(60)
  /// The longest such time, unless the schedule has a shorter one.
  private static let retryMax = Duration.seconds(3_600)

  /// The settings.
  public let settings: Settings
  private let maker: BackupMaker
  private let logger: Logger
  private let now: @Sendable () -> Duration
  private let random: @Sendable () -> UInt64
  private let wasRemoved: @Sendable (NamespaceName) -> Bool
  private let state = Mutex(State())

  /// Creates the keeper of a server's backups.
  ///
  /// - Parameters:
  ///   - now: the time since some fixed moment, for durations.
  ///   - random: returns a random number, for the id of a folder that has none.
  ///   - wasRemoved: whether the administrator has removed a namespace, so that no backup of it need be kept.
  public init(
    _ maker: BackupMaker, _ settings: Settings, now: @escaping @Sendable () -> Duration,
    random: @escaping @Sendable () -> UInt64,
    wasRemoved: @escaping @Sendable (NamespaceName) -> Bool = { _ in false }, logger: Logger
  ) {
    self.maker = maker
    self.settings = settings
    self.now = now
    self.random = random
    self.wasRemoved = wasRemoved
    self.logger = logger
  }

  /// The path of the folder.
  public var folder: String { maker.folder + "/" + Backups.folderName }

  /// The numbers of this process.
  public var counts: Counts { state.withLock { $0.counts } }

  /// Returns the backups in the folder, the oldest first. Files with other names are not backups of this server.
  public func stored() throws(BackupError) -> [StoredBackup] {
    guard let directory = opendir(folder) else {
      if errno == ENOENT { return [] }
      throw BackupError(FileError("open", folder))
    }
    defer { closedir(directory) }
    var found: [StoredBackup] = []
    while let entry = readdir(directory) {
      let name = withUnsafePointer(to: &entry.pointee.d_name) { pointer in
        pointer.withMemoryRebound(to: CChar.self, capacity: 256) { String(cString: $0) }
      }
      var status = stat()
      guard lstat(folder + "/" + name, &status) == 0, status.st_mode & S_IFMT == S_IFREG,
        let backup = StoredBackup(name: name, bytes: Int(status.st_size))
      else { continue }
      found.append(backup)
    }
    return found.sorted { ($0.time, $0.sequence) < ($1.time, $1.sequence) }
  }

  /// Returns the newest backup whose time is not in the future; nil without such a backup.
  ///
  /// A later one was made while the clock was ahead, so it says nothing about the age of the newest backup.
  public func newest() throws(BackupError) -> StoredBackup? {
    let now = maker.now()
    return try stored().last { $0.time <= now }
  }

  /// Makes a backup, and then removes the old ones of its kind that are not needed: see `BackupRetention`.
  ///
  /// - Throws: `BackupError.busy` if a backup is being made; another `BackupError`, or `StoreError`. Then no backup is
  ///   removed.
  public func make(_ kind: StoredBackup.Kind) async throws -> StoredBackup {
    try state.withLock { state throws(BackupError) in
      if state.isStopping { throw .stopped }
      if state.isMaking {
        let progress = state.counts.progress.map { " (\($0.bytes) of \($0.bytesMax) bytes)" } ?? ""
        throw .busy("another backup is being made\(progress); try again when it is complete")
      }
      state.isMaking = true
    }
    let began = now()
    let result: Result<StoredBackup, any Error> = await withCheckedContinuation { continuation in
      let hasStarted = WorkerThread.start(niceness: 10) { [self] in
        continuation.resume(returning: Result { try makeNow(kind) })
      }
      if !hasStarted {
        continuation.resume(
          returning: .failure(
            BackupError.unwritable("the system gives no more threads; stop some programs")))
      }
    }
    finish(result, kind, since: began)
    return try result.get()
  }

  private func finish(
    _ result: Result<StoredBackup, any Error>, _ kind: StoredBackup.Kind, since began: Duration
  ) {
    let duration = now() - began
    state.withLock { state in
      state.isMaking = false
      if state.isStopping { state.lock = nil }
      state.counts.progress = nil
      switch result {
      case .success:
        state.counts.made += 1
        state.counts.lastDuration = duration
        state.counts.lastFailure = nil
        if kind == .scheduled { state.failuresInRow = 0 }
      case .failure(BackupError.stopped): break
      case .failure(let error):
        state.counts.failed += 1
        if case BackupError.lowOnSpace = error { state.counts.lowOnSpace += 1 }
        state.counts.lastFailure = Backups.sentence(of: error)
        if kind == .scheduled { state.failuresInRow += 1 }
      }
    }
    switch result {
    case .success(let backup):
      logger.notice(
        "a backup is complete",
        metadata: [
          "file": "\(backup.name)", "bytes": "\(backup.bytes)", "seq": "\(backup.sequence)",
          "ms": "\(Int64(duration / .milliseconds(1)))",
        ])
    case .failure(BackupError.stopped): break
    case .failure(let error):
      var metadata: Logger.Metadata = [
        "kind": "\(kind.rawValue)", "error": "\(Backups.sentence(of: error))",
      ]
      if kind == .scheduled, let every = settings.every {
        metadata["retrySeconds"] = "\(untilRetry(every).components.seconds)"
      }
      logger.error("the backup failed; the older backups are kept", metadata: metadata)
    }
  }

  /// Returns one sentence for an error of a backup of this server.
  public static func sentence(of error: any Error) -> String {
    switch error {
    case let error as BackupError: error.sentence
    case let error as StoreError: StoreError.ofServer(error.sentence)
    default: "the backup cannot be written (\(error)): check the space on the disk"
    }
  }

  /// Makes a backup on this thread.
  private func makeNow(_ kind: StoredBackup.Kind) throws -> StoredBackup {
    let folder = folder
    guard mkdir(folder, 0o700) == 0 || errno == EEXIST else {
      throw BackupError(FileError("create", folder))
    }
    // A link may lead to a folder on another disk.
    var status = stat()
    guard stat(folder, &status) == 0 else {
      throw BackupError.unwritable(
        "\(folder) is a symbolic link that leads to no folder: mount the disk to which it leads, or remove the link"
      )
    }
    guard status.st_mode & S_IFMT == S_IFDIR else {
      throw BackupError.unwritable("\(folder) is not a folder: move it away")
    }
    let id = try takeFolder()
    try removeRests()
    let made = try maker.make(in: workFolder(of: id), of: id) { description in
      folder + "/"
        + StoredBackup.name(
          kind, time: description.time, sequence: description.databases[0].sequence)
    } progress: { progress in
      try state.withLock { state throws(BackupError) in
        if state.isStopping { throw .stopped }
        state.counts.progress = progress
      }
    }
    let backup = StoredBackup(
      kind: kind, time: made.description.time, sequence: made.description.databases[0].sequence,
      bytes: made.bytes)
    removeOld(after: backup, made.description, of: id)
    return backup
  }

  /// Takes the lock of the folder with the backups, which must exist. Returns the id of the data folder.
  ///
  /// - Throws: `BackupError.busy` if another server has the lock.
  private func takeFolder() throws -> String {
    try state.withLock { state throws(BackupError) in
      if !(state.lock?.isOf(folder) ?? false) { state.lock = try BackupLock(folder) }
    }
    return try id()
  }

  /// Returns the id of the data folder, which is made at its first use.
  private func id() throws -> String {
    // Requests for the counts wait meanwhile, but not for long.
    try state.withLock { state in
      if let id = state.id { return id }
      let id = try FolderID.loadOrCreate(in: maker.folder, random: random)
      state.id = id
      return id
    }
  }

  private func workFolder(of id: String) -> String {
    "\(folder)/\(Backups.workName)-\(id)"
  }

  /// Removes the remains of a backup of this server that the end of a process has interrupted. Leaves those of other
  /// servers.
  public func removeRests() throws {
    var status = stat()
    guard stat(folder, &status) == 0 else { return }
    let work = workFolder(of: try takeFolder())
    let earlier = folder + "/" + Backups.workName
    if lstat(earlier, &status) == 0 {
      logger.warning(
        "an unfinished backup of an earlier version is left", metadata: ["folder": "\(earlier)"])
    }
    guard lstat(work, &status) == 0 else { return }
    do { try FileManager.default.removeItem(atPath: work) } catch {
      throw BackupError.unwritable("\(work) cannot be removed: \(error.localizedDescription)")
    }
  }

  /// Removes the backups of the same kind that are not needed, and never the new one.
  ///
  /// One that has a namespace which the new backup lacks stays, unless the administrator has removed the namespace. It
  /// may be the last copy of a namespace whose folder is lost. Those without the id of the data folder stay too:
  /// another server may have made them.
  private func removeOld(after new: StoredBackup, _ description: BackupDescription, of id: String) {
    guard let stored = try? stored() else { return }
    var own: [(backup: StoredBackup, description: BackupDescription)] = []
    var others: [StoredBackup] = []
    for backup in stored
    where backup.kind == new.kind && !backup.name.utf8.elementsEqual(new.name.utf8) {
      if let read = self.description(of: backup), Backups.isSame(read.folderID, id) {
        own.append((backup, read))
      } else {
        others.append(backup)
      }
    }
    report(others)
    let now = maker.now()
    let unneeded = BackupRetention(
      kept: settings.kept, every: new.kind == .scheduled ? settings.every : nil, now: now
    ).unneeded(of: own.map(\.backup), beside: new)
    report(own.map(\.backup).filter { $0.time > now && !unneeded.contains($0) }, after: new)
    for (old, read) in own where unneeded.contains(old) {
      if let name = namespace(of: read, missingIn: description) {
        logger.warning(
          "an old backup is kept, because it has a namespace that the new one lacks",
          metadata: ["file": "\(old.name)", "namespace": "\(name)"])
        continue
      }
      guard unlink(folder + "/" + old.name) != 0, errno != ENOENT else { continue }
      logger.warning(
        "an old backup cannot be removed",
        metadata: ["file": "\(old.name)", "error": "\(FileError("remove", old.name).reason)"])
    }
  }

  /// Returns the description of a backup; nil if it cannot be read.
  private func description(of backup: StoredBackup) -> BackupDescription? {
    try? BackupFile(folder + "/" + backup.name).description()
  }

  private static func isSame(_ id: String?, _ other: String) -> Bool {
    id?.utf8.elementsEqual(other.utf8) ?? false
  }

  /// Reports once that there are backups which this server does not remove.
  private func report(_ others: [StoredBackup]) {
    guard let first = others.first else { return }
    let isReported = state.withLock { state in
      defer { state.hasReportedOthers = true }
      return state.hasReportedOthers
    }
    guard !isReported else { return }
    logger.notice(
      "backups without the id of the data folder are kept",
      metadata: ["count": "\(others.count)", "file": "\(first.name)"])
  }

  /// Reports the backups of the future that stay.
  private func report(_ later: [StoredBackup], after new: StoredBackup) {
    guard let last = later.last else { return }
    logger.warning(
      "backups have a time in the future, because the clock was ahead then or is behind now",
      metadata: ["count": "\(later.count)", "file": "\(last.name)", "new": "\(new.name)"])
  }

  /// Returns a namespace of a backup that another one lacks and that the administrator has not removed; nil if the other one
  /// has all of them.
  private func namespace(
    of old: BackupDescription, missingIn new: BackupDescription
  ) -> NamespaceName? {
    old.databases.compactMap { try? NamespaceName($0.name) }
      .first { new.database(of: $0) == nil && !wasRemoved($0) }
  }

  /// Makes the backups of the schedule until the task is cancelled. Returns at once without a schedule.
  ///
  /// The first one is due when the last one in the folder is old enough, also after a restart.
  public func run(clock: some Clock<Duration>) async {
    guard let every = settings.every else { return }
    var hasFailed = false
    while !Task.isCancelled {
      let rest = hasFailed ? untilRetry(every) : untilNext(every)
      guard (try? await clock.sleep(for: rest)) != nil else { return }
      do {
        _ = try await make(.scheduled)
        hasFailed = false
      } catch BackupError.stopped {
        return
      } catch {
        hasFailed = true
      }
    }
  }

  /// Returns the time from a failure of the schedule, or from a try while another backup was made, to the next try.
  private func untilRetry(_ every: Duration) -> Duration {
    let failures = state.withLock { $0.failuresInRow }
    // Six doublings exceed the longest time.
    let rest = Backups.retryMin * (1 << min(6, max(0, failures - 1)))
    return min(every, rest, Backups.retryMax)
  }

  /// Returns the time until the next backup of the schedule is due, at most `every`.
  private func untilNext(_ every: Duration) -> Duration {
    let now = maker.now()
    let id = try? id()
    // After the clock was set back, a backup seems to be of the future. One of an earlier version has no id.
    let last = (try? stored())?.last { backup in
      guard backup.kind == .scheduled, backup.time <= now else { return false }
      let folder = description(of: backup)?.folderID
      return folder == nil || id.map { Backups.isSame(folder, $0) } ?? false
    }
    guard let last else { return .zero }
    let passed = Duration.milliseconds(now - last.time)
    return min(every, max(.zero, every - passed))
  }

  /// Ends the present backup after its current step, and makes no others. Then another server may use the folder.
  public func stop() {
    state.withLock { state in
      state.isStopping = true
      if !state.isMaking { state.lock = nil }
    }
  }
}
