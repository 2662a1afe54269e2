internal import CanopySystem
internal import Crypto
internal import Foundation

/// Writes the file of a backup: a tar archive with the files of a data folder, their description and their checksums.
///
/// The last file, `SHA256SUMS`, has a line for each other one, as the program `sha256sum` writes it.
struct BackupWriter {
  /// The bytes that are read and written at a time.
  static let pieceBytes = 1024 * 1024

  private let path: String
  private let descriptor: Int32
  /// The time of the files in seconds since 1970.
  private let seconds: Int
  private var sums = ""
  private let textBytesMax: Int
  /// The number of bytes that are written.
  private(set) var bytes = 0

  /// Creates the file with mode 0600.
  ///
  /// - Parameter textBytesMax: the most bytes of the description and of the checksums each.
  /// - Throws: `BackupError.unwritable`, also if the file exists.
  init(
    _ path: String, seconds: Int, textBytesMax: Int = BackupLayout.textBytesMax
  ) throws(BackupError) {
    self.path = path
    self.seconds = seconds
    self.textBytesMax = textBytesMax
    let flags = O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC
    descriptor = FileCalls.openFile(path, flags)
    guard descriptor >= 0 else { throw BackupError(FileError("create", path)) }
  }

  /// Adds a file with the given contents.
  mutating func add(_ contents: [UInt8], as name: String) throws(BackupError) {
    if name.utf8.elementsEqual(BackupLayout.description.utf8) {
      try checkSize(contents.count, of: name)
    }
    try begin(name, size: contents.count)
    try write(contents)
    try end(name, size: contents.count, SHA256.hash(data: contents))
  }

  /// Adds a file of the disk, which must not change meanwhile.
  ///
  /// - Parameter afterPiece: called after each piece with the bytes of the file so far. An error that it throws ends the work.
  mutating func add(
    file: String, as name: String, afterPiece: (Int) throws -> Void
  ) throws {
    let source = open(file, O_RDONLY | O_CLOEXEC)
    guard source >= 0 else { throw BackupError(FileError("open", file)) }
    defer { Foundation.close(source) }
    var status = stat()
    guard fstat(source, &status) == 0 else { throw BackupError(FileError("examine", file)) }
    let size = Int(status.st_size)
    try begin(name, size: size)
    var hash = SHA256()
    var piece = [UInt8](repeating: 0, count: BackupWriter.pieceBytes)
    var done = 0
    while done < size {
      let count = Foundation.read(source, &piece, min(piece.count, size - done))
      if count < 0, errno == EINTR { continue }
      guard count > 0 else { throw BackupError(FileError("read", file)) }
      hash.update(data: piece[..<count])
      try BackupWriter.write(piece[..<count], to: descriptor, path)
      done += count
      self.bytes += count
      // No synchronization of a commit has to wait for many bytes of the backup. The system reports an
      // error once, so it must not be ignored here.
      try synchronize(dataOnly: true)
      try afterPiece(done)
    }
    try end(name, size: size, hash.finalize())
  }

  /// Adds the checksums, and synchronizes the file. Call `close` afterwards.
  mutating func finish() throws(BackupError) {
    let contents = Array(sums.utf8)
    try begin(BackupLayout.sums, size: contents.count)
    try write(contents)
    try write(zeros(TarHeader(name: "", size: contents.count, seconds: 0).padding))
    try write(zeros(2 * TarHeader.blockBytes))
    try synchronize()
  }

  private func synchronize(dataOnly: Bool = false) throws(BackupError) {
    guard FileCalls.synchronize(descriptor, dataOnly: dataOnly, path) == 0 else {
      throw BackupError(FileError("synchronize", path))
    }
  }

  /// Closes the file.
  func close() { Foundation.close(descriptor) }

  private mutating func begin(_ name: String, size: Int) throws(BackupError) {
    try write(TarHeader(name: name, size: size, seconds: seconds).encoded)
  }

  private mutating func end(
    _ name: String, size: Int, _ hash: SHA256.Digest
  ) throws(BackupError) {
    try write(zeros(TarHeader(name: "", size: size, seconds: 0).padding))
    sums += BackupWriter.line(hash, name)
    try checkSize(sums.utf8.count, of: BackupLayout.sums)
  }

  /// Checks that a reader will take a text.
  private func checkSize(_ count: Int, of name: String) throws(BackupError) {
    guard count > textBytesMax else { return }
    throw .unwritable(
      "the server has too many namespaces for a backup, whose \(name) has at most \(textBytesMax) bytes: remove some, "
        + "or move some to another server")
  }

  /// Returns the line of a file in `SHA256SUMS`.
  static func line(_ hash: SHA256.Digest, _ name: String) -> String {
    hash.map { ($0 < 16 ? "0" : "") + String($0, radix: 16) }.joined() + "  \(name)\n"
  }

  private func zeros(_ count: Int) -> [UInt8] { [UInt8](repeating: 0, count: count) }

  private mutating func write(_ contents: [UInt8]) throws(BackupError) {
    try BackupWriter.write(contents[...], to: descriptor, path)
    bytes += contents.count
  }

  /// Writes bytes to a file.
  ///
  /// - Parameter path: the name for an error.
  static func write(
    _ contents: ArraySlice<UInt8>, to descriptor: Int32, _ path: String
  ) throws(BackupError) {
    let error = contents.withUnsafeBytes { bytes -> FileError? in
      do throws(FileError) { try AtomicFile.writeAll(bytes, to: descriptor, path) } catch {
        return error
      }
      return nil
    }
    if let error { throw BackupError(error) }
  }
}
