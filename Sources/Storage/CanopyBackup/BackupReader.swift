internal import CanopySystem
internal import CanopyWire
internal import Crypto
internal import Foundation

/// The file of a backup.
public struct BackupFile: Sendable {
  /// The path of the file.
  public let path: String

  /// Names a file, which is not read yet.
  public init(_ path: String) { self.path = path }

  /// Reads the whole file, and writes the files in it into a folder.
  ///
  /// Every byte of the file is compared or covered by a checksum. O(size) time, O(1) memory. Blocks the caller's thread.
  ///
  /// - Parameters:
  ///   - folder: an empty folder; nil to check the file without writing anything.
  ///   - progress: receives the number of bytes that were read, and the number of bytes of the file.
  /// - Returns: the description of the backup.
  /// - Throws: `BackupError.damaged` if a byte is missing or altered; `BackupError.unwritable`.
  @discardableResult
  public func unpack(
    to folder: String?, progress: (_ done: Int, _ total: Int) -> Void = { _, _ in }
  ) throws(BackupError) -> BackupDescription {
    var reader = try BackupReader(path)
    defer { close(reader.descriptor) }
    return try withoutActuallyEscaping(progress) { progress throws(BackupError) in
      try reader.read(to: folder, progress)
    }
  }

  /// Reads the description alone, and compares nothing with its checksum. O(number of files).
  ///
  /// - Throws: `BackupError.damaged` if there is no description; `BackupError.unwritable` if the file cannot be read.
  func description() throws(BackupError) -> BackupDescription {
    var reader = try BackupReader(path)
    defer { close(reader.descriptor) }
    return try reader.findDescription()
  }
}

/// Reads a backup from its first to its last byte.
private struct BackupReader {
  let path: String
  let descriptor: Int32
  let size: Int
  private var offset = 0
  /// The lines of `SHA256SUMS` for the files so far.
  private var sums = ""
  private var names: Set<[UInt8]> = []
  private var description: [UInt8]?

  /// Opens a file. Close the descriptor afterwards.
  init(_ path: String) throws(BackupError) {
    // Otherwise the opening of a pipe would wait for its other end.
    let descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK)
    guard descriptor >= 0 else { throw BackupError(FileError("open", path)) }
    do throws(BackupError) {
      var status = stat()
      guard fstat(descriptor, &status) == 0 else { throw BackupError(FileError("examine", path)) }
      guard status.st_mode & S_IFMT == S_IFREG else {
        throw .damaged("\(path) is not a regular file: name the file of a backup")
      }
      self.path = path
      self.descriptor = descriptor
      size = Int(status.st_size)
    } catch {
      close(descriptor)
      throw error
    }
  }

  /// Finds the description behind the other files, whose contents it does not read.
  mutating func findDescription() throws(BackupError) -> BackupDescription {
    while true {
      let place = offset
      guard let header = TarHeader(try bytes(TarHeader.blockBytes)) else {
        throw .damaged(path, "the header at byte \(place) is wrong")
      }
      guard !header.name.utf8.elementsEqual(BackupLayout.description.utf8) else {
        return try BackupDescription(json: text(header), of: path)
      }
      guard header.size <= size - offset else { throw tooShort }
      offset += header.size + header.padding
      guard lseek(descriptor, off_t(offset), SEEK_SET) >= 0 else {
        throw BackupError(FileError("read", path))
      }
    }
  }

  mutating func read(
    to folder: String?, _ progress: (Int, Int) -> Void
  ) throws(BackupError) -> BackupDescription {
    while true {
      let place = offset
      guard let header = TarHeader(try bytes(TarHeader.blockBytes)) else {
        throw .damaged(path, "the header at byte \(place) is wrong")
      }
      guard BackupLayout.isName(header.name), names.insert(Array(header.name.utf8)).inserted else {
        throw .damaged(path, "it has a file of an unexpected name at byte \(place)")
      }
      guard header.size <= size - offset else { throw tooShort }
      if header.name.utf8.elementsEqual(BackupLayout.sums.utf8) {
        try readEnd(header)
        break
      }
      if header.name.utf8.elementsEqual(BackupLayout.description.utf8) {
        let contents = try text(header)
        try addLine(SHA256.hash(data: contents), header.name)
        description = contents
      } else {
        try copy(header, to: folder, progress)
      }
      try zeros(header.padding)
    }
    guard let description else { throw .damaged(path, "it has no description") }
    let result = try BackupDescription(json: description, of: path)
    try check(result)
    return result
  }

  private var tooShort: BackupError { .damaged(path, "its end is missing") }

  /// Reads the checksums and the end of the file.
  private mutating func readEnd(_ header: TarHeader) throws(BackupError) {
    guard try text(header) == Array(sums.utf8) else {
      throw .damaged(path, "the checksum of a file in it does not match")
    }
    try zeros(header.padding + 2 * TarHeader.blockBytes)
    guard offset == size else { throw .damaged(path, "it has \(size - offset) bytes too many") }
  }

  /// Checks that the files are those of the described namespaces.
  private func check(_ description: BackupDescription) throws(BackupError) {
    let databases = description.databases.compactMap { try? NamespaceName($0.name) }
    let expected = databases.map {
      Array((BackupLayout.prefix(of: $0) + BackupLayout.database).utf8)
    }
    let end = Array(BackupLayout.database.utf8)
    let found = names.filter { $0.suffix(end.count).elementsEqual(end) }
    // A name that is repeated would be restored again each time.
    guard databases.count == description.databases.count, databases.contains(.default),
      expected.count == found.count, Set(expected) == found
    else { throw .damaged(path, "its files are not those of its description") }
  }

  private mutating func text(_ header: TarHeader) throws(BackupError) -> [UInt8] {
    guard header.size <= BackupLayout.textBytesMax else {
      throw .damaged(path, "\(header.name) is too large")
    }
    return try bytes(header.size)
  }

  /// Copies a file into the folder.
  private mutating func copy(
    _ header: TarHeader, to folder: String?, _ progress: (Int, Int) -> Void
  ) throws(BackupError) {
    let target = try folder.map { folder throws(BackupError) in
      try create(header.name, in: folder)
    }
    let targetPath = (folder ?? "") + "/" + header.name
    defer { if let target { close(target) } }
    var hash = SHA256()
    var left = header.size
    while left > 0 {
      let piece = try bytes(min(left, BackupWriter.pieceBytes))
      hash.update(data: piece)
      left -= piece.count
      if let target { try BackupWriter.write(piece[...], to: target, targetPath) }
      progress(offset, size)
    }
    if let target, fsync(target) != 0 { throw BackupError(FileError("synchronize", targetPath)) }
    try addLine(hash.finalize(), header.name)
  }

  private mutating func addLine(_ hash: SHA256.Digest, _ name: String) throws(BackupError) {
    sums += BackupWriter.line(hash, name)
    guard sums.utf8.count <= BackupLayout.textBytesMax else {
      throw .damaged(path, "it has too many files")
    }
  }

  /// Creates a file and the folders above it, but not the folder of the whole: a command that a signal ends may just have
  /// removed it.
  private func create(_ name: String, in folder: String) throws(BackupError) -> Int32 {
    var path = folder
    for part in name.utf8.split(separator: UInt8(ascii: "/")).dropLast() {
      path += "/" + String(decoding: Array(part), as: UTF8.self)
      guard mkdir(path, 0o700) == 0 || errno == EEXIST else {
        throw BackupError(FileError("create", path))
      }
    }
    path = folder + "/" + name
    let file = open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0o600)
    guard file >= 0 else { throw BackupError(FileError("create", path)) }
    return file
  }

  private mutating func bytes(_ count: Int) throws(BackupError) -> [UInt8] {
    var buffer = [UInt8](repeating: 0, count: count)
    var filled = 0
    while filled < count {
      let got = buffer.withUnsafeMutableBytes {
        Foundation.read(descriptor, $0.baseAddress?.advanced(by: filled), count - filled)
      }
      if got < 0, errno == EINTR { continue }
      guard got >= 0 else { throw BackupError(FileError("read", path)) }
      guard got > 0 else { throw tooShort }
      filled += got
    }
    offset += count
    return buffer
  }

  private mutating func zeros(_ count: Int) throws(BackupError) {
    let place = offset
    guard try bytes(count).allSatisfy({ $0 == 0 }) else {
      throw .damaged(path, "the bytes after \(place) are not zero")
    }
  }
}
