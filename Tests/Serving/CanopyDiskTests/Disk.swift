import CFaultyDisk
import CanopyTesting
import Testing

/// A disk below a folder: see `CFaultyDisk.h` for the files of SQLite, and `OwnFiles` for the others.
///
/// `@unchecked Sendable`: the functions of the pointer lock what they use, and only `deinit` frees it.
final class Disk: @unchecked Sendable {
  private let disk: OpaquePointer
  /// The files that are written without SQLite.
  let ownFiles: OwnFiles

  /// Precondition of the end: SQLite has closed the files in the folder.
  init(_ folder: TemporaryFolder) throws {
    guard let disk = FaultyDiskCreate(folder.path) else { throw Unusable() }
    self.disk = disk
    let address = Int(bitPattern: disk)
    // `deinit` ends the use of the functions before it frees the disk.
    ownFiles = OwnFiles(
      folder.path, hasEnded: { FaultyDiskHasEnded(OpaquePointer(bitPattern: address)) },
      endPower: { FaultyDiskEnd(OpaquePointer(bitPattern: address)) })
    ownFiles.begin()
  }

  deinit {
    ownFiles.end()
    FaultyDiskFree(disk)
  }

  /// The system gives no memory for a disk, or does not write its image.
  struct Unusable: Error {}

  /// Plans a fault of the operation with a number, counted from 0 among those that the fault concerns.
  func plan(_ fault: DiskFault, at number: Int, seed: UInt64) {
    guard fault.calls.isEmpty else { return ownFiles.plan(fault, at: number, seed: seed) }
    FaultyDiskPlan(
      disk, fault.code, fault.operations.rawValue, Int64(number), fault.lasts, seed)
  }

  /// Plants a disk whose synchronizations do nothing, and report success.
  func ignoreSync() {
    FaultyDiskPlan(disk, Int32(FaultyDiskSyncIgnored), DiskOperations.sync.rawValue, 0, true, 0)
  }

  /// Ends the planned faults.
  func heal() {
    FaultyDiskHeal(disk)
    ownFiles.heal()
  }

  /// Fails the power.
  func end() { FaultyDiskEnd(disk) }

  /// Whether the power has failed.
  var hasEnded: Bool { FaultyDiskHasEnded(disk) }

  /// Returns the number of operations so far that a fault concerns.
  func count(_ fault: DiskFault) -> Int {
    fault.calls.isEmpty
      ? Int(FaultyDiskCount(disk, fault.operations.rawValue)) : ownFiles.count(fault.calls)
  }

  /// The number of operations that have failed as planned.
  var faults: Int { Int(FaultyDiskFaults(disk)) + ownFiles.faults }

  /// The operation and the file that failed first.
  var firstFault: String {
    let text = String(cString: FaultyDiskFirstFault(disk))
    return text.isEmpty ? ownFiles.firstFault : text
  }

  /// Returns a folder with the files that the disk has after a loss of power.
  func image(_ state: PowerLoss, seed: UInt64) throws -> TemporaryFolder {
    let folder = try TemporaryFolder()
    guard FaultyDiskWriteImage(disk, folder.path, state.rawValue, seed) else { throw Unusable() }
    try ownFiles.writeImage(to: folder.path, state, seed: seed)
    return folder
  }
}

/// The state of the unsynchronized writes after a loss of power.
enum PowerLoss: Int32, CaseIterable {
  case allLost = 0
  case torn = 1
  case allKept = 2
}

/// A set of operations of a disk.
struct DiskOperations: OptionSet {
  let rawValue: Int32

  static let open = DiskOperations(rawValue: Int32(FaultyDiskOpen))
  static let read = DiskOperations(rawValue: Int32(FaultyDiskRead))
  static let write = DiskOperations(rawValue: Int32(FaultyDiskWrite))
  static let sync = DiskOperations(rawValue: Int32(FaultyDiskSync))
  static let truncate = DiskOperations(rawValue: Int32(FaultyDiskTruncate))
  static let delete = DiskOperations(rawValue: Int32(FaultyDiskDelete))
  static let lock = DiskOperations(rawValue: Int32(FaultyDiskLock))
  static let changes: DiskOperations = [.open, .write, .sync, .truncate, .delete]
  static let all: DiskOperations = [.changes, .read, .lock]
}

/// A kind of fault. The disk is sound again after it, or, if the fault lasts, after the first refused request.
enum DiskFault: String, CaseIterable, CustomTestStringConvertible {
  case error
  case lastingError
  case full
  case shortWrite
  case shortRead
  case syncDropped
  case lastingSyncDropped
  /// The same as `lastingSyncDropped`, but until the server has stopped.
  case syncDroppedAtStop
  case syncReverted
  case powerLoss
  // Faults of the files that are written without SQLite.
  case fileError
  case lastingFileError
  case fileFull
  case fileShortWrite
  case fileSyncDropped
  case filePowerLoss

  var testDescription: String { rawValue }

  /// The operations that fail in this way.
  var operations: DiskOperations {
    switch self {
    case .error, .lastingError: .all
    case .full: [.write]
    case .shortWrite: [.write]
    case .shortRead: [.read]
    case .syncDropped, .lastingSyncDropped, .syncDroppedAtStop, .syncReverted: [.sync]
    case .powerLoss: .changes
    case .fileError, .lastingFileError, .fileFull, .fileShortWrite, .fileSyncDropped,
      .filePowerLoss:
      []
    }
  }

  /// The calls on files that are written without SQLite which fail in this way; none for a fault of SQLite's files.
  var calls: Set<OwnFiles.Kind> {
    switch self {
    case .fileError, .lastingFileError, .filePowerLoss: [.open, .write, .sync, .rename, .remove]
    case .fileFull: [.open, .write, .rename]
    case .fileShortWrite: [.write]
    case .fileSyncDropped: [.sync]
    default: []
    }
  }

  var lasts: Bool {
    switch self {
    case .lastingError, .full, .lastingSyncDropped, .syncDroppedAtStop, .lastingFileError,
      .fileFull:
      true
    default: false
    }
  }

  var code: Int32 {
    let code =
      switch self {
      case .error, .lastingError: FaultyDiskError
      case .full: FaultyDiskFull
      case .shortWrite: FaultyDiskShortWrite
      case .shortRead: FaultyDiskShortRead
      case .syncDropped, .lastingSyncDropped, .syncDroppedAtStop: FaultyDiskSyncDropped
      case .syncReverted: FaultyDiskSyncReverted
      case .powerLoss: FaultyDiskPowerLoss
      default: 0
      }
    return Int32(code)
  }
}
