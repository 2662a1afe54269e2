public import CanopySQLite
public import CanopyWire
internal import CanopySystem
internal import Foundation

/// The restoring of a backup into a new data folder.
public struct Restoring: Sendable {
  /// The result for one namespace.
  public struct Outcome: Equatable, Sendable {
    /// The namespace.
    public let namespace: NamespaceName
    /// The number of the last commit that is in the folder.
    public let sequence: Int64
    /// Whether later commits of the backup are left out.
    public let isEarlier: Bool
    /// The time of the restored point in milliseconds since 1970. An account that was opened later did not exist then.
    public let time: Int64
    /// Whether the time of the latest login of a deleted account was in the future. It is the present time then.
    public let hadFutureLogin: Bool
  }

  /// The backup.
  public let file: BackupFile
  /// An older backup of the same server, with which the tree begins; nil for none.
  public let older: BackupFile?
  /// The commit up to which each namespace is restored.
  private let point: @Sendable (NamespaceName) -> RestorePoint
  private let now: @Sendable () -> Int64

  /// Creates the work.
  ///
  /// - Parameters:
  ///   - now: the clock, in milliseconds since 1970, which determines the numbers of new commits.
  ///   - point: returns the commit up to which a namespace is restored.
  public init(
    _ file: BackupFile, older: BackupFile? = nil, now: @escaping @Sendable () -> Int64,
    to point: @escaping @Sendable (NamespaceName) -> RestorePoint
  ) {
    self.file = file
    self.older = older
    self.point = point
    self.now = now
  }

  /// Returns paths for the temporary folders of `run`, which nothing has.
  ///
  /// - Parameter number: a number that other processes do not use.
  public func workFolders(for folder: String, number: Int) -> [String] {
    (["restoring"] + (older == nil ? [] : ["older"])).map {
      NewFolder(folder).workPath(for: $0, number: number)
    }
  }

  /// Unpacks a backup into a new folder, restores its namespaces, and gives the folder its name when `check` has accepted
  /// it. Blocks the thread of its task for steps of the disk.
  ///
  /// - Parameters:
  ///   - folder: the path of the new folder. An empty folder with this path is filled.
  ///   - works: the paths of `workFolders`.
  ///   - progress: receives the bytes of the backup that are unpacked.
  ///   - check: checks the unpacked folder before it gets its name.
  ///   - willName: see `NewFolder.fill`.
  /// - Throws: `BackupError`, `StoreError`, or the error of `check`. Then nothing is left, unless only the name of the
  ///   complete folder may not be on the disk.
  public func run(
    to folder: String, through works: [String], progress: (_ done: Int, _ total: Int) -> Void,
    check: (_ folder: String, [Outcome]) async throws -> Void, willName: () -> Void = {}
  ) async throws -> [Outcome] {
    let new = NewFolder(folder)
    try new.checkIsFree()
    // Another process may have taken a path meanwhile. Its folder stays.
    var made: [String] = []
    defer { for work in made { try? FileManager.default.removeItem(atPath: work) } }
    for work in works {
      guard mkdir(work, 0o700) == 0 else { throw BackupError(FileError("create", work)) }
      made.append(work)
    }
    let (filling, base) = (works[0], works[works.count - 1])
    let description = try file.unpack(to: filling, progress: progress)
    let begin = try older?.unpack(to: base, progress: progress)
    var outcomes: [Outcome] = []
    for database in description.databases {
      let name = try NamespaceName(database.name)
      outcomes.append(
        try await restore(
          name, database, in: filling, begin?.database(of: name) == nil ? nil : base,
          description.time))
    }
    try await check(filling, outcomes)
    try new.fill(from: filling, willName: willName)
    return outcomes
  }

  /// Restores the database of a namespace.
  ///
  /// - Parameter base: the folder of the older backup; nil if it does not have the namespace.
  private func restore(
    _ name: NamespaceName, _ database: BackupDescription.Database, in folder: String,
    _ base: String?, _ time: Int64
  ) async throws -> Outcome {
    let prefix = BackupLayout.prefix(of: name)
    func place(_ folder: String) -> String {
      prefix.isEmpty ? folder : folder + "/" + prefix.dropLast()
    }
    let point = point(name)
    var configuration = SQLiteStore.Configuration()
    // The backup has them.
    configuration.keepsFormerFiles = false
    let store = try SQLiteStore(folder: place(folder), configuration: configuration)
    let older = try point == .last ? nil : base.map { try SQLiteStore.reading(place($0)) }
    let result: Result<Outcome, any Error>
    do {
      let pointTime = try await store.time(of: point, from: older)
      let sequence = try await store.restore(to: point, from: older, copyTime: time, at: now())
      result = .success(
        Outcome(
          namespace: name, sequence: sequence, isEarlier: sequence < database.sequence,
          time: pointTime, hadFutureLogin: try await store.correctFutureLogin(at: now())))
    } catch { result = .failure(error) }
    try? older?.close()
    try store.close()
    do { return try result.get() } catch let error as StoreError {
      guard name != .default, case .unreachable(let text) = error else { throw error }
      // A time selects all namespaces, also one that was created later.
      throw StoreError.unreachable(
        "namespace \(name): \(text); or restore only one namespace up to this point, with --namespace"
      )
    }
  }
}
