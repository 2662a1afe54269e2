internal import CanopyTree
internal import Foundation
internal import Synchronization

/// The writes that began or ceased to be pending and that the store has not recorded yet, in two files.
///
/// The call that makes a write appends it before it returns. From then on the write survives the end of the process.
/// When the server has answered the write, its id is appended, and the application is notified after that. The call that
/// withdraws a write also appends the id. So no later process sends the write again. Each append costs one system call.
/// Writes and ids survive a loss of power once the store has recorded them, because the journal is not synchronized
/// with the disk.
///
/// The files take turns, so that none grows while the store works: call `turn` before the store takes writes, and
/// `clearOlder` when it has recorded them. A file may keep writes that the store has recorded. The reader drops them by
/// their ids, which ascend over all processes.
///
/// A write is a line of fields, between tabs: the id, the milliseconds, and for each item its location and its value in
/// JSON. Neither a location nor JSON contains a tab or a line feed. The end of a write is a line of its id alone.
package final class WriteJournal: Sendable {
  private let paths: [String]
  private let files: [Int32]
  /// The index of the file to append to.
  private let active = Mutex(0)

  /// Opens the files of a folder, which one process at a time may use.
  ///
  /// - Throws: `PersistenceError`.
  package init(folder: String) throws {
    paths = ["writes-0", "writes-1"].map { folder + "/" + $0 }
    var files: [Int32] = []
    for path in paths {
      let file = open(path, O_RDWR | O_APPEND | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0o600)
      guard file >= 0 else {
        let reason = String(cString: strerror(errno))
        for file in files { close(file) }
        throw PersistenceError("\(path) cannot be opened: \(reason)")
      }
      files.append(file)
    }
    self.files = files
  }

  deinit {
    for file in files { close(file) }
  }

  /// The writes of both files, and the ids of those that are no longer pending.
  package struct Contents {
    package var writes: [SavedState.SavedWrite] = []
    package var removed: [WriteID] = []
  }

  /// Appends the new writes and the ends of writes among changes.
  ///
  /// - Throws: `PersistenceError`; then none of them is appended.
  package func note(_ changes: [StateChange]) throws {
    var output = JSONOutput()
    for change in changes {
      switch change {
      case .writeAdded(let id, let write, let milliseconds):
        output.append(id.number)
        output.append("\t")
        output.append(milliseconds)
        for item in write.items {
          output.append("\t")
          output.append(raw: item.location.text)
          output.append("\t")
          output.append(item.value)
        }
        output.append("\n")
      case .writeRemoved(let id):
        output.append(id.number)
        output.append("\n")
      case .received, .listening, .kept: break
      }
    }
    guard output.count > 0 else { return }
    try active.withLock { active in
      try output.withBytes { try append($0, to: active) }
    }
  }

  private func append(_ bytes: UnsafeRawBufferPointer, to index: Int) throws {
    let file = files[index]
    var written = 0
    while written < bytes.count {
      let count = Foundation.write(
        file, bytes.baseAddress?.advanced(by: written), bytes.count - written)
      if count < 0, errno == EINTR { continue }
      guard count > 0 else {
        let reason = String(cString: strerror(errno))
        // The next line must not continue this one.
        if written > 0 { _ = ftruncate(file, lseek(file, 0, SEEK_END) - off_t(written)) }
        throw PersistenceError("\(paths[index]) cannot be written: \(reason)")
      }
      written += count
    }
  }

  /// Appends to the other file from now on.
  func turn() {
    active.withLock { $0 = 1 - $0 }
  }

  /// Clears the file from which `turn` has turned: the store has recorded its writes.
  func clearOlder() {
    active.withLock { _ = ftruncate(files[1 - $0], 0) }
  }

  /// Clears both files.
  func clear() {
    for file in files { _ = ftruncate(file, 0) }
  }

  /// Reads both files. The writes are in the order of their ids. Leaves out lines that are incomplete, as after a loss of
  /// power.
  package func read() -> Contents {
    var contents = Contents()
    var found: Set<Int64> = []
    for path in paths {
      let bytes = FileManager.default.contents(atPath: path) ?? Data()
      let lines = bytes.split(separator: UInt8(ascii: "\n"), omittingEmptySubsequences: false)
      // After the last line feed there is an incomplete line, or none.
      for line in lines.dropLast() {
        let fields = line.split(separator: UInt8(ascii: "\t"), omittingEmptySubsequences: false)
          .map { String(decoding: $0, as: UTF8.self) }
        // Numbers continue from the last one and must not overflow.
        guard let id = fields.first.flatMap({ Int64($0) }), 0...Int64.max / 2 ~= id else {
          continue
        }
        if fields.count == 1 {
          contents.removed.append(WriteID(id))
        } else if !found.contains(id), let write = Self.savedWrite(WriteID(id), fields) {
          // In a damaged file two writes can have one number, which the store would refuse.
          found.insert(id)
          contents.writes.append(write)
        }
      }
    }
    contents.writes.sort { $0.id < $1.id }
    return contents
  }

  private static func savedWrite(_ id: WriteID, _ fields: [String]) -> SavedState.SavedWrite? {
    guard fields.count >= 2, fields.count % 2 == 0, let milliseconds = Int64(fields[1])
    else { return nil }
    let items = stride(from: 2, to: fields.count, by: 2).map { index in
      Result {
        Write.Item(
          try Location(fields[index]), try WriteValue(json: fields[index + 1], limits: .none))
      }
    }
    guard let write = try? Write(items.map { try $0.get() }) else { return nil }
    return SavedState.SavedWrite(id: id, write: write, milliseconds: milliseconds)
  }
}
