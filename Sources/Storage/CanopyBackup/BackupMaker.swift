internal import CanopyEngine
internal import CanopySQLite
public import CanopyWire
internal import CanopySystem
internal import Foundation

/// The pace of a backup beside a running server.
public struct BackupPace: Sendable {
  /// The most pages that one step copies.
  public var pagesPerStep = 256
  /// The shortest work after which there is a pause.
  public var workMin = Duration.milliseconds(2)
  /// The longest pause after a step.
  public var pauseMax = Duration.milliseconds(100)
  /// Returns the time since some fixed moment. It never goes back.
  public var now: @Sendable () -> Duration
  /// Blocks the thread for a time.
  public var pause: @Sendable (Duration) -> Void

  /// Creates a pace that pauses after each step for as long as the step took, so that a backup takes at most half of the
  /// time of a disk.
  public init(
    now: @escaping @Sendable () -> Duration, pause: @escaping @Sendable (Duration) -> Void
  ) {
    self.now = now
    self.pause = pause
  }

  /// A pace without pauses, for a folder that no server uses.
  public static let unlimited = BackupPace(now: { .zero }, pause: { _ in })
}

/// The work of a backup so far.
public struct BackupProgress: Equatable, Sendable {
  /// The namespace whose files are copied.
  public var namespace: NamespaceName
  /// The number of bytes of its database that are copied. Each byte is copied twice: out of the database, and into the
  /// backup.
  public var bytes: Int
  /// The number of bytes to copy.
  public var bytesMax: Int
}

/// Makes the backups of a server.
public struct BackupMaker: Sendable {
  /// The data folder of the server.
  public let folder: String
  /// Whether a server uses the folder.
  public let isServed: Bool
  /// Returns the namespaces besides the default one, with their folders.
  private let namespaces: @Sendable () throws -> [(name: NamespaceName, folder: String)]
  /// The program, for the description.
  private let program: String
  /// Returns a sentence if the contents of a small file cannot be used.
  private let fileProblem: @Sendable (_ path: String, _ contents: [UInt8]) -> String?
  /// The time in milliseconds since 1970.
  let now: @Sendable () -> Int64
  private let pace: BackupPace
  /// The free space that a backup must leave.
  private let space: BackupSpace

  /// The number of copies of a database after which rules that change all the time are an error.
  private static let triesMax = 5

  /// Creates a maker.
  ///
  /// - Parameters:
  ///   - folder: the data folder.
  ///   - isServed: whether a server uses the folder; false to lock it meanwhile.
  ///   - namespaces: returns the namespaces besides the default one, with their folders. It throws an error if the folder
  ///     of one is missing, because a backup without it could replace the last one that has it.
  ///   - program: the name and the version of the program.
  ///   - now: the time in milliseconds since 1970.
  ///   - space: the free space that a backup must leave.
  ///   - fileProblem: returns a sentence if the rules or a secret cannot be used, so that a server would not start with
  ///     them. Then no backup is made, because it could not be restored.
  public init(
    folder: String, isServed: Bool,
    namespaces: @escaping @Sendable () throws -> [(name: NamespaceName, folder: String)],
    program: String, now: @escaping @Sendable () -> Int64, pace: BackupPace,
    space: BackupSpace = .unbounded,
    fileProblem: @escaping @Sendable (_ path: String, _ contents: [UInt8]) -> String? = { _, _ in
      nil
    }
  ) {
    self.folder = folder
    self.isServed = isServed
    self.namespaces = namespaces
    self.program = program
    self.now = now
    self.pace = pace
    self.space = space
    self.fileProblem = fileProblem
  }

  /// Makes a backup. A namespace that a command removes meanwhile is left out. One whose folder goes missing in another way
  /// ends the backup.
  ///
  /// Works in the folder `work`, which is removed at the end. The file gets its name in one step, when all of it is on the
  /// disk. So it exists as a whole or not at all. Blocks the caller's thread.
  ///
  /// - Parameters:
  ///   - work: the path of a folder that does not exist, on the disk of the backup.
  ///   - id: the id of the data folder, for the description.
  ///   - name: returns the path of the backup, which is replaced if it exists.
  ///   - progress: called after each step. An error that it throws ends the backup.
  /// - Returns: the description, the path and the size in bytes.
  /// - Throws: `BackupError`, also if too little space would stay free; `StoreError`; or the error of `progress`. Then no
  ///   file is left, unless only the folder of the backup cannot be synchronized. The error says so, and the backup stays.
  public func make(
    in work: String, of id: String? = nil, named name: (BackupDescription) -> String,
    progress: (BackupProgress) throws -> Void = { _ in }
  ) throws -> (description: BackupDescription, path: String, bytes: Int) {
    guard mkdir(work, 0o700) == 0 else { throw BackupError(FileError("create", work)) }
    defer { try? FileManager.default.removeItem(atPath: work) }
    let places = try [(name: NamespaceName.default, folder: folder)] + namespaces()
    try space.check(for: BackupSpace.bytesNeeded(for: places.map(\.folder)), in: work)
    func progressInSpace(_ done: BackupProgress) throws {
      try space.check(in: work)
      try progress(done)
    }
    var description = BackupDescription(program: program, time: now())
    description.folderID = id
    let archive = work + "/backup"
    var writer = try BackupWriter(archive, seconds: Int(description.time / 1_000))
    let result = Result {
      for (namespace, folder) in places {
        try add(namespace, folder, in: work, to: &writer, &description, progressInSpace)
      }
      try writer.add(try description.json, as: BackupLayout.description)
      try writer.finish()
    }
    writer.close()
    try result.get()
    let path = name(description)
    guard FileCalls.renameFile(archive, to: path) == 0 else {
      throw BackupError(FileError("create", path))
    }
    // The new name may have replaced an older backup, so the file stays in any case.
    try Self.synchronizeFolder(of: path, "\(path) is the backup")
    return (description, path, writer.bytes)
  }

  /// Adds the files of a namespace; nothing if it was removed.
  private func add(
    _ namespace: NamespaceName, _ folder: String, in work: String, to writer: inout BackupWriter,
    _ description: inout BackupDescription, _ progress: (BackupProgress) throws -> Void
  ) throws {
    let copy = work + "/database"
    let began = pacer()
    let database: DatabaseCopy
    let rules: [UInt8]?
    do {
      (database, rules) = try copyDatabase(namespace, folder, to: copy, began, progress)
    } catch let error
      where namespace != .default && !(error is BackupError) && Self.isGone(folder)
    {
      try? FileManager.default.removeItem(atPath: copy)
      // Throws if no command has removed the namespace: its disk may not be mounted any more.
      _ = try namespaces()
      return
    }
    let prefix = BackupLayout.prefix(of: namespace)
    let file = copy + "/" + BackupLayout.database
    let size = try Self.size(of: file)
    try writer.add(file: file, as: prefix + BackupLayout.database) { bytes in
      try progress(
        BackupProgress(namespace: namespace, bytes: size + bytes, bytesMax: 2 * size))
      began.rest()
    }
    try FileManager.default.removeItem(atPath: copy)
    if let rules { try writer.add(rules, as: prefix + BackupLayout.rules) }
    if namespace == .default {
      for name in BackupLayout.secrets {
        let path = folder + "/" + name
        guard let secret = try Self.contents(path) else { continue }
        try check(secret, of: path)
        try writer.add(secret, as: name)
      }
    }
    description.databases.append(
      BackupDescription.Database(
        name: namespace.text, sequence: database.sequence, time: database.time))
  }

  /// Copies a database with the rules of the same moment.
  ///
  /// The rules are a file of their own. If it changes between a time before the transaction of the copy and a time within
  /// it, the copy begins again.
  private func copyDatabase(
    _ namespace: NamespaceName, _ folder: String, to copy: String, _ pacer: Pacer,
    _ progress: (BackupProgress) throws -> Void
  ) throws -> (DatabaseCopy, rules: [UInt8]?) {
    let path = folder + "/" + BackupLayout.rules
    for _ in 0..<Self.triesMax {
      let rules = try Self.contents(path)
      if let rules, !RulesFile(rules).isIntact {
        throw StoreError.damaged(RulesFile.damage(of: path))
      }
      if let rules { try check(rules, of: path) }
      var rulesWithin: Result<[UInt8]?, any Error>?
      // The last step of a copy ignores errors of the closure, so the first one is kept.
      var failure: (any Error)?
      var done = BackupProgress(namespace: namespace, bytes: 0, bytesMax: 0)
      func report() throws {
        do { try progress(done) } catch {
          failure = failure ?? error
          throw error
        }
        pacer.rest()
      }
      let database = try SQLiteStore.copyDatabase(
        of: folder, isServed: isServed, to: copy, pagesPerStep: pace.pagesPerStep,
        afterStep: { step in
          if rulesWithin == nil { rulesWithin = Result { try Self.contents(path) } }
          done.bytes = step.pages * SQLiteStore.pageBytes
          done.bytesMax = 2 * step.pagesMax * SQLiteStore.pageBytes
          try report()
        }, whileChecking: report)
      if let failure { throw failure }
      if try rulesWithin?.get() == rules {
        if rules == nil, database.rules?.origin == .file {
          throw StoreError.damaged(RulesFile.loss(of: path))
        }
        return (database, rules)
      }
      try FileManager.default.removeItem(atPath: copy)
    }
    throw BackupError.busy("the rules of \(namespace) change all the time; try again later")
  }

  private func check(_ contents: [UInt8], of path: String) throws(StoreError) {
    if let problem = fileProblem(path, contents) { throw .damaged(problem) }
  }

  private func pacer() -> Pacer { Pacer(pace) }

  /// Whether the folder of a namespace does not exist any more.
  private static func isGone(_ folder: String) -> Bool {
    var status = stat()
    return lstat(folder, &status) != 0 && errno == ENOENT
  }

  private static func size(of path: String) throws(BackupError) -> Int {
    var status = stat()
    guard stat(path, &status) == 0 else { throw BackupError(FileError("examine", path)) }
    return Int(status.st_size)
  }

  /// Returns the bytes of a small file; nil if it does not exist.
  static func contents(_ path: String) throws -> [UInt8]? {
    var status = stat()
    guard stat(path, &status) == 0 || errno != ENOENT else {
      // A server would not start with a link to a missing file.
      guard lstat(path, &status) != 0 else {
        throw BackupError.unwritable(
          "\(path) is a symbolic link to a missing file: put the file back, or remove the link")
      }
      return nil
    }
    // To read a pipe would wait for its other end.
    guard status.st_mode & S_IFMT == S_IFREG else {
      throw BackupError.unwritable("\(path) is not a regular file")
    }
    let bytes: [UInt8]
    do throws(FileError) { bytes = try SmallFile.read(path) } catch {
      // It may have been removed just now.
      if error.code == ENOENT { return nil }
      throw BackupError.unwritable("\(path) cannot be read: \(error.reason)")
    }
    guard bytes.count < SmallFile.bytesMax else {
      throw StoreError.damaged(
        "\(path) has \(SmallFile.bytesMax) bytes or more, so it has neither rules nor a secret: put back the file of a "
          + "backup")
    }
    return bytes
  }

  /// Waits until the disk has the new name of a file or a folder that is complete.
  ///
  /// - Parameter fact: says that it is there, as the beginning of a sentence.
  static func synchronizeFolder(of path: String, _ fact: String) throws(BackupError) {
    do throws(FileError) { try AtomicFile.synchronizeFolder(of: path) } catch {
      throw .unsynchronized(
        "\(fact), but its name may be lost if the power fails (\(error.reason)): check the disk")
    }
  }
}

/// The pauses of one backup. Used by one thread.
private final class Pacer {
  private let pace: BackupPace
  private var began: Duration

  init(_ pace: BackupPace) {
    self.pace = pace
    began = pace.now()
  }

  /// Pauses for as long as the work since the last pause took, if it took long enough.
  func rest() {
    let took = pace.now() - began
    guard took >= pace.workMin else { return }
    pace.pause(min(took, pace.pauseMax))
    began = pace.now()
  }
}
