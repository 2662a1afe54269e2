internal import Foundation

/// A copy of a file byte by byte.
enum FileCopy {
  private static let pieceBytes = 1024 * 1024
  /// The arguments of `lseek` on Linux for the next data and the next gap, which Swift does not import.
  private static let (seekData, seekGap): (Int32, Int32) = (3, 4)

  /// Copies a regular file to a path that does not exist. Gaps stay gaps, because a damaged file may be longer than
  /// the disk.
  ///
  /// - Parameter bytesMax: the most bytes to copy from the beginning.
  /// - Throws: `StoreError.inaccessible`, which names the file that cannot be copied.
  static func copy(_ path: String, to new: String, bytesMax: Int = .max) throws(StoreError) {
    let source = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK)
    guard source >= 0 else { throw error(path) }
    defer { close(source) }
    let target = open(new, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0o600)
    guard target >= 0 else { throw error(path) }
    defer { close(target) }
    var status = stat()
    guard fstat(source, &status) == 0 else { throw error(path) }
    let size = min(Int(status.st_size), bytesMax)
    var offset = 0
    while offset < size {
      let begin = next(source, seekData, from: offset, size)
      let end = next(source, seekGap, from: begin, size)
      guard begin < end else { break }
      try copy(path, source, target, begin..<end)
      offset = end
    }
    guard ftruncate(target, off_t(size)) == 0 else { throw error(path) }
  }

  /// Whether two files have the same bytes, or both do not exist. Gaps are not read.
  static func areEqual(_ path: String, _ other: String) -> Bool {
    guard access(path, F_OK) == 0, access(other, F_OK) == 0 else {
      return access(path, F_OK) == access(other, F_OK)
    }
    let flags = O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK
    let one = open(path, flags)
    guard one >= 0 else { return false }
    defer { close(one) }
    let two = open(other, flags)
    guard two >= 0 else { return false }
    defer { close(two) }
    var (status, otherStatus) = (stat(), stat())
    guard fstat(one, &status) == 0, fstat(two, &otherStatus) == 0,
      status.st_size == otherStatus.st_size
    else { return false }
    let size = Int(status.st_size)
    var offset = 0
    while true {
      offset = min(nextData(in: one, from: offset, size), nextData(in: two, from: offset, size))
      guard offset < size else { return true }
      let count = min(pieceBytes, size - offset)
      guard let bytes = read(one, count, at: offset), bytes == read(two, count, at: offset) else {
        return false
      }
      offset += count
    }
  }

  private static func read(_ file: Int32, _ count: Int, at offset: Int) -> [UInt8]? {
    var bytes = [UInt8](repeating: 0, count: count)
    return pread(file, &bytes, count, off_t(offset)) == count ? bytes : nil
  }

  /// Returns the next position of a file that is not in a gap; `size` if the rest is one.
  static func nextData(in file: Int32, from offset: Int, _ size: Int) -> Int {
    next(file, seekData, from: offset, size)
  }

  /// Finds the next position with data, or the next gap. Returns `size` if there is none. On a file system without gaps,
  /// every position has data.
  private static func next(_ file: Int32, _ kind: Int32, from offset: Int, _ size: Int) -> Int {
    let found = lseek(file, off_t(offset), kind)
    if found < 0, kind == seekData, errno != ENXIO { return offset }
    return found < 0 ? size : min(Int(found), size)
  }

  private static func copy(
    _ path: String, _ source: Int32, _ target: Int32, _ range: Range<Int>
  ) throws(StoreError) {
    var buffer = [UInt8](repeating: 0, count: min(pieceBytes, range.count))
    var offset = range.lowerBound
    while offset < range.upperBound {
      let wanted = min(buffer.count, range.upperBound - offset)
      let count = pread(source, &buffer, wanted, off_t(offset))
      if count < 0, errno == EINTR { continue }
      guard count >= 0 else { throw error(path) }
      if count == 0 { return }
      var written = 0
      while written < count {
        let result = buffer.withUnsafeBytes {
          pwrite(
            target, $0.baseAddress?.advanced(by: written), count - written,
            off_t(offset + written))
        }
        if result < 0, errno == EINTR { continue }
        guard result > 0 else { throw error(path) }
        written += result
      }
      offset += count
    }
  }

  private static func error(_ path: String) -> StoreError {
    .inaccessible("\(path) cannot be copied: \(String(cString: strerror(errno)))")
  }
}
