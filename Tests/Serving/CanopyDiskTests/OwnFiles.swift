import CanopySystem
import CanopyTesting
import Foundation
import Synchronization

/// The files below a folder that Canopy writes without SQLite, on the same disk: `canopy.tail`, the rules, the
/// administrator's token and backups.
///
/// It counts the calls, makes planned ones fail, and remembers what a loss of power would leave. A disk has the bytes of a
/// file when the file is synchronized, and a name when its folder is.
final class OwnFiles: Sendable {
  /// A file, with or without a name.
  fileprivate struct File {
    /// The bytes that the disk has.
    var stored: [UInt8] = []
    /// The writes that the disk may not have.
    var writes: [(offset: Int, bytes: [UInt8])] = []
    /// The size of the file.
    var size = 0
  }

  /// Changes of names that the disk has all together or not at all; nil for a removal.
  fileprivate struct NameChange {
    var folder: String
    var names: [(path: String, file: Int?)]
  }

  fileprivate struct State {
    var files: [File] = []
    var names: [String: Int] = [:]
    var storedNames: [String: Int] = [:]
    var changes: [NameChange] = []
    /// The folders in which a file or a folder got another name since they were synchronized last.
    var renamedIn: Set<String> = []
    var fault: DiskFault?
    var number = 0
    var counts: [Kind: Int] = [:]
    var faults = 0
    var firstFault = ""
    var random = SeededGenerator(seed: 0)
  }

  /// The kinds of calls.
  enum Kind: String {
    case open, write, sync, rename, remove
  }

  private static let all = Mutex<[String: OwnFiles]>([:])

  private let folder: String
  private let state = Mutex(State())
  /// Fails the power for the files of SQLite, too.
  private let endPower: @Sendable () -> Void
  private let hasEnded: @Sendable () -> Bool

  /// Precondition of the end: nothing uses the folder.
  init(
    _ folder: String, hasEnded: @escaping @Sendable () -> Bool,
    endPower: @escaping @Sendable () -> Void
  ) {
    self.folder = folder
    self.hasEnded = hasEnded
    self.endPower = endPower
  }

  func begin() {
    Self.all.withLock { $0[folder] = self }
    FileCalls.faults.withLock { faults in
      faults.ofCall = { operation, path in
        let disk = Self.all.withLock { all in
          all.first { path.hasPrefix($0.key + "/") || path == $0.key }?.value
        }
        return disk?.take(operation, path)
      }
    }
  }

  func end() { Self.all.withLock { $0[folder] = nil } }

  /// Plans a fault of the call with a number, counted from 0 among those that the fault concerns.
  func plan(_ fault: DiskFault, at number: Int, seed: UInt64) {
    state.withLock { state in
      state.fault = fault
      state.number = number
      state.random = SeededGenerator(seed: seed)
    }
  }

  /// Ends the planned faults, if one has come.
  func heal() { state.withLock { if $0.faults > 0 { $0.fault = nil } } }

  /// Returns the number of calls so far.
  func count(_ kinds: Set<Kind>) -> Int {
    state.withLock { state in kinds.reduce(0) { $0 + (state.counts[$1] ?? 0) } }
  }

  var faults: Int { state.withLock { $0.faults } }

  /// The folders in which a file or a folder got another name that the disk may not have, sorted.
  var unsynchronizedFolders: [String] { state.withLock { $0.renamedIn.sorted() } }

  /// The call and the file that failed first.
  var firstFault: String { state.withLock { $0.firstFault } }

  private func take(_ operation: FileCalls.Operation, _ path: String) -> FileCalls.Fault? {
    guard !hasEnded() else { return .error(EIO) }
    let kind = operation.kind
    let (result, endsPower) = state.withLock { state -> (FileCalls.Fault?, Bool) in
      let kinds = state.fault?.calls ?? []
      let number = kinds.reduce(0) { $0 + (state.counts[$1] ?? 0) }
      state.counts[kind, default: 0] += 1
      guard let fault = state.fault, kinds.contains(kind),
        number == state.number || number > state.number && fault.lasts
      else {
        state.carryOut(operation, path)
        return (nil, false)
      }
      state.faults += 1
      if state.faults == 1 {
        state.firstFault = "\(kind.rawValue) \(path.dropFirst(folder.utf8.count + 1))"
      }
      switch fault {
      case .filePowerLoss:
        // The disk may have parts of the call during which the power fails.
        if Bool.random(using: &state.random) { state.carryOut(operation, path) }
        return (.error(EIO), true)
      case .fileShortWrite:
        // A disk replaces a sector as a whole, so a small write in place stores nothing.
        guard case .write(let bytes, let offset) = operation, bytes.count > 1,
          offset == nil || bytes.count > 512
        else {
          return (.error(ENOSPC), false)
        }
        state.carryOut(.write(Array(bytes.prefix(bytes.count / 2)), offset: offset), path)
        // The rest of the bytes finds the disk full.
        state.fault = .fileFull
        state.number = 0
        return (.short(bytes.count / 2), false)
      case .fileSyncDropped:
        state.drop(path)
        return (.error(EIO), false)
      case .fileFull: return (.error(ENOSPC), false)
      default: return (.error(EIO), false)
      }
    }
    if endsPower { endPower() }
    return result
  }

  /// Writes the files that the disk has after a loss of power into another folder.
  func writeImage(to place: String, _ loss: PowerLoss, seed: UInt64) throws {
    var random = SeededGenerator(seed: seed)
    let files = state.withLock { state -> [(path: String, bytes: [UInt8])] in
      var names = state.storedNames
      for change in state.changes.prefix(Self.kept(state.changes.count, loss, &random)) {
        for (path, file) in change.names { names[path] = file }
      }
      return names.sorted { $0.key < $1.key }.map { path, file in
        (path, Self.bytes(of: state.files[file], loss, &random))
      }
    }
    for (path, bytes) in files {
      let file = place + path.dropFirst(folder.count)
      try FileManager.default.createDirectory(
        atPath: URL(fileURLWithPath: file).deletingLastPathComponent().path,
        withIntermediateDirectories: true)
      guard
        FileManager.default.createFile(
          atPath: file, contents: Data(bytes), attributes: [.posixPermissions: 0o600])
      else { throw Disk.Unusable() }
    }
  }

  /// Returns the number of changes that the disk has: all of them in half of the cases.
  private static func kept(
    _ count: Int, _ loss: PowerLoss, _ random: inout SeededGenerator
  ) -> Int {
    loss == .allKept || Bool.random(using: &random)
      ? count : Int.random(in: 0...count, using: &random)
  }

  private static func bytes(
    of file: File, _ loss: PowerLoss, _ random: inout SeededGenerator
  ) -> [UInt8] {
    var bytes = file.stored
    let kept = kept(file.writes.count, loss, &random)
    for write in file.writes.prefix(kept) { bytes.write(write.bytes, at: write.offset) }
    guard loss == .torn, kept < file.writes.count else { return bytes }
    // The disk has some sectors of the next write.
    let next = file.writes[kept]
    for start in stride(from: 0, to: next.bytes.count, by: 512)
    where Bool.random(using: &random) {
      let sector = Array(next.bytes[start..<min(start + 512, next.bytes.count)])
      bytes.write(sector, at: next.offset + start)
    }
    return bytes
  }
}

extension OwnFiles.State {
  /// Notes the change that a call makes.
  fileprivate mutating func carryOut(_ operation: FileCalls.Operation, _ path: String) {
    switch operation {
    case .open(let creates):
      guard creates, names[path] == nil else { return }
      files.append(OwnFiles.File())
      change([(path, files.count - 1)])
    case .write(let bytes, let offset):
      guard let file = names[path] else { return }
      let offset = offset ?? files[file].size
      files[file].writes.append((offset, bytes))
      files[file].size = max(files[file].size, offset + bytes.count)
    case .synchronize:
      guard let file = names[path] else {
        // A folder.
        renamedIn.remove(path)
        for change in changes where change.folder == path {
          for (name, file) in change.names { storedNames[name] = file }
        }
        changes.removeAll { $0.folder == path }
        return
      }
      for write in files[file].writes { files[file].stored.write(write.bytes, at: write.offset) }
      files[file].writes = []
    case .rename(let new):
      renamedIn.insert(Self.folder(of: new))
      guard let file = names[path] else { return }
      change([(path, nil), (new, file)])
    case .remove:
      if names[path] != nil { change([(path, nil)]) }
    }
  }

  /// Forgets the writes of a file that a failed synchronization has dropped: no later one stores them.
  fileprivate mutating func drop(_ path: String) {
    if let file = names[path] { files[file].writes = [] }
  }

  private mutating func change(_ pairs: [(path: String, file: Int?)]) {
    for (path, file) in pairs { names[path] = file }
    let folder = Self.folder(of: pairs.last?.path ?? "")
    changes.append(OwnFiles.NameChange(folder: folder, names: pairs))
  }

  private static func folder(of path: String) -> String {
    String(path[..<(path.lastIndex(of: "/") ?? path.startIndex)])
  }
}

extension FileCalls.Operation {
  fileprivate var kind: OwnFiles.Kind {
    switch self {
    case .open: .open
    case .write: .write
    case .synchronize: .sync
    case .rename: .rename
    case .remove: .remove
    }
  }
}

extension [UInt8] {
  /// Writes bytes at an offset. A gap before them has zeros.
  fileprivate mutating func write(_ bytes: [UInt8], at offset: Int) {
    let end = offset + bytes.count
    if count < end { self += [UInt8](repeating: 0, count: end - count) }
    replaceSubrange(offset..<end, with: bytes)
  }
}
