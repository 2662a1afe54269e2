package import CanopyRows
internal import CanopySystem
internal import Foundation
internal import Synchronization

/// The end of the durable data, which the database must have at the next start.
package struct Tail: Equatable, Sendable {
  /// The sequence number of the last commit.
  package var sequence: Int64
  /// The checksum of that commit.
  package var checksum: Checksum
  /// The number of changes to accounts, tokens and on-disconnect writes.
  package var revision: Int64
  /// The greatest time of a commit or in a key, in milliseconds since 1970.
  package var time: Int64
}

/// The file `canopy.tail`, which contains the end of the journal outside of the database.
///
/// SQLite takes the first damaged frame of a write-ahead log for the end of the log, and does not report the commits
/// after it. So this file has the end of the journal as well. Every durable transaction writes it, after the
/// transaction is on the disk, with one `pwrite` that is not synchronized. The file survives a crash of the process. A
/// power failure may leave an older version, which is correct too: it only proves fewer commits. (With
/// `--durability relaxed`, a power failure may leave an older log. So the file also contains the durability and the
/// boot.)
package final class TailFile: Sendable {
  /// The contents of a file.
  package struct Contents: Sendable {
    package var tail: Tail
    /// Whether the system has not been restarted since the file was written. Then it is the latest version.
    var isOfThisBoot: Bool
    /// The marks of the file.
    var marks: Marks

    /// Whether the next server must continue with new sequence numbers.
    var needsNewNumbers: Bool { marks.contains(.newNumbers) }

    /// Whether commits that clients have seen may be lost without a trace.
    var allowsLoss: Bool { marks.contains(.relaxed) && !isOfThisBoot }
  }

  /// The properties of a folder that the file notes.
  struct Marks: OptionSet, Sendable {
    let rawValue: Int64

    /// The durability is relaxed, so that the commits may not be on the disk.
    static let relaxed = Marks(rawValue: 1)
    /// The next server must continue with new sequence numbers: see `NewNumbers`.
    static let newNumbers = Marks(rawValue: 2)
    /// The write-ahead log has durable transactions. The disk has this mark before any later transaction is durable.
    static let log = Marks(rawValue: 4)
    /// There is a file of rules.
    static let rulesFile = Marks(rawValue: 8)
  }

  private static let magic = Array("CANOPYT1".utf8)
  /// The bytes of a valid file.
  static let bytes = 72

  private let folder: String
  private let path: String
  private let descriptor = Mutex<Int32?>(nil)
  /// The marks of all later writes.
  private let marks: Atomic<Int64>

  package init(folder: String, isRelaxed: Bool) {
    self.folder = folder
    path = folder + "/canopy.tail"
    marks = Atomic(isRelaxed ? Marks.relaxed.rawValue : 0)
  }

  deinit { close() }

  /// Reads the file; nil if it is missing or damaged.
  ///
  /// - Throws: `StoreError.inaccessible` if it exists and cannot be read, or is not a regular file.
  package func read() throws(StoreError) -> Contents? {
    // Without O_NONBLOCK, opening a pipe would wait for its other end.
    let file = Foundation.open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK)
    if file < 0, errno == ENOENT { return nil }
    guard file >= 0, let bytes = TailFile.readBytes(of: file) else {
      let code = errno
      if file >= 0 { Foundation.close(file) }
      throw .unopenable(path, code)
    }
    Foundation.close(file)
    return bytes.withUnsafeBytes { bytes in
      guard bytes.count == TailFile.bytes, bytes.prefix(8).elementsEqual(TailFile.magic) else {
        return nil
      }
      func number(_ index: Int) -> Int64 {
        Int64(littleEndian: bytes.loadUnaligned(fromByteOffset: index * 8, as: Int64.self))
      }
      let body = UnsafeRawBufferPointer(rebasing: bytes.prefix(TailFile.bytes - 8))
      guard Checksum.xxh64(body, seed: 4) == UInt64(bitPattern: number(8)) else { return nil }
      guard SequenceRange.contains(number(1)), SequenceRange.contains(number(3)) else { return nil }
      let tail = Tail(
        sequence: number(1), checksum: Checksum(stored: number(2)), revision: number(3),
        time: number(4))
      let boot = Boot.id
      return Contents(
        tail: tail, isOfThisBoot: boot != (0, 0) && boot == (number(6), number(7)),
        marks: Marks(rawValue: number(5)))
    }
  }

  /// Whether all later writes have a mark.
  func has(_ mark: Marks) -> Bool {
    Marks(rawValue: marks.load(ordering: .acquiring)).contains(mark)
  }

  /// Adds a mark to all later writes, or removes it. Returns whether that is a change.
  @discardableResult
  func set(_ mark: Marks, _ isSet: Bool = true) -> Bool {
    let before =
      isSet
      ? marks.bitwiseOr(mark.rawValue, ordering: .acquiringAndReleasing).oldValue
      : marks.bitwiseAnd(~mark.rawValue, ordering: .acquiringAndReleasing).oldValue
    return Marks(rawValue: before).contains(mark) != isSet
  }

  /// Returns the bytes of a file, at most one more than a valid file has: a damaged file may be of any size. Returns nil if
  /// the system reports an error.
  static func readBytes(of descriptor: Int32) -> [UInt8]? {
    var status = stat()
    guard fstat(descriptor, &status) == 0 else { return nil }
    guard status.st_mode & S_IFMT == S_IFREG else {
      errno = EINVAL
      return nil
    }
    var buffer = [UInt8](repeating: 0, count: bytes + 1)
    var filled = 0
    while filled < buffer.count {
      let count = buffer.withUnsafeMutableBytes { buffer in
        Foundation.read(descriptor, buffer.baseAddress?.advanced(by: filled), buffer.count - filled)
      }
      if count < 0, errno == EINTR { continue }
      guard count >= 0 else { return nil }
      if count == 0 { break }
      filled += count
    }
    return Array(buffer.prefix(filled))
  }

  /// Whether the file exists. If `read` has returned nil, it is damaged.
  var exists: Bool { access(path, F_OK) == 0 }

  /// Opens the file for writing. Cuts a longer file, which would stay damaged after each write. Call after `read`.
  ///
  /// - Parameter tail: the contents of the file if it is missing. It then appears with all its bytes, because one that a
  ///   loss of power leaves empty would be damaged.
  /// - Throws: `StoreError.inaccessible`, because without the file a loss would not be found.
  package func open(creatingWith tail: Tail) throws(StoreError) {
    if !exists {
      do throws(FileError) {
        try AtomicFile.replace(path, with: withBytes(of: tail) { Array($0) })
      } catch { throw .unopenable(path, error.code) }
    }
    let opened = FileCalls.openFile(path, O_WRONLY | O_CLOEXEC | O_NOFOLLOW)
    guard opened >= 0 else { throw .unopenable(path, errno) }
    var status = stat()
    guard fstat(opened, &status) == 0,
      status.st_size <= TailFile.bytes || ftruncate(opened, off_t(TailFile.bytes)) == 0
    else {
      let code = errno
      Foundation.close(opened)
      throw .unopenable(path, code)
    }
    let before = descriptor.withLock { descriptor in
      defer { descriptor = opened }
      return descriptor
    }
    if let before { Foundation.close(before) }
  }

  /// Waits until the disk has the file and its name, if it is open. Without the file, a start could not distinguish a lost
  /// transaction from one that has failed.
  ///
  /// - Throws: `StoreError.inaccessible`.
  func synchronize() throws(StoreError) {
    guard let descriptor = descriptor.withLock({ $0 }) else { return }
    guard FileCalls.synchronize(descriptor, path) == 0 else { throw .unopenable(path, errno) }
    do throws(FileError) { try AtomicFile.synchronizeFolder(of: path) } catch {
      throw .unopenable(folder, error.code)
    }
  }

  /// Writes the file with one system call, if it is open. A failure leaves an older version, which is correct too.
  package func write(_ tail: Tail) {
    withBytes(of: tail) { bytes in
      descriptor.withLock { descriptor in
        guard let descriptor else { return }
        _ = FileCalls.writeBytes(bytes, to: descriptor, at: 0, path)
      }
    }
  }

  /// Calls `use` with the bytes of the file.
  private func withBytes<R>(of tail: Tail, _ use: (UnsafeRawBufferPointer) -> R) -> R {
    let boot = Boot.id
    return withUnsafeTemporaryAllocation(byteCount: TailFile.bytes, alignment: 8) { bytes in
      func put(_ number: Int64, _ index: Int) {
        bytes.storeBytes(of: number.littleEndian, toByteOffset: index * 8, as: Int64.self)
      }
      bytes.copyBytes(from: TailFile.magic)
      put(tail.sequence, 1)
      put(tail.checksum.stored, 2)
      put(tail.revision, 3)
      put(tail.time, 4)
      put(marks.load(ordering: .acquiring), 5)
      put(boot.0, 6)
      put(boot.1, 7)
      let body = UnsafeRawBufferPointer(rebasing: bytes.prefix(TailFile.bytes - 8))
      let checksum = Checksum.xxh64(body, seed: 4)
      bytes.storeBytes(of: checksum.littleEndian, toByteOffset: TailFile.bytes - 8, as: UInt64.self)
      return use(UnsafeRawBufferPointer(bytes))
    }
  }

  /// Synchronizes the file and closes it.
  package func close() {
    guard let descriptor = descriptor.withLock({ $0.take() }) else { return }
    _ = FileCalls.synchronize(descriptor, path)
    Foundation.close(descriptor)
  }
}

/// The current boot of the system.
private enum Boot {
  /// A unique number of the boot; (0, 0) if the system has none.
  static let id: (Int64, Int64) = {
    guard
      let text = try? String(contentsOfFile: "/proc/sys/kernel/random/boot_id", encoding: .utf8),
      let uuid = UUID(uuidString: text.trimmingCharacters(in: .whitespacesAndNewlines))
    else { return (0, 0) }
    return withUnsafeBytes(of: uuid.uuid) {
      ($0.loadUnaligned(as: Int64.self), $0.loadUnaligned(fromByteOffset: 8, as: Int64.self))
    }
  }()
}
