internal import Foundation

/// The correction of a damaged write-ahead log, as far as its checksums prove the bytes that were there.
///
/// Each checksum covers the log from its beginning, so SQLite finds no frame after a damaged one. This corrects:
/// - The header, in which all numbers are known except a counter. The checksum of the first frame gives the counter.
/// - A frame with one altered bit, if the checksum shows which one, or with other salts. If more was altered, a wrong bit
///   would be found in one of 2^49 cases. The checksums of the rows would show it.
///
/// Other damage ends the log before the transaction that has it. The frames behind it may be older: after a loss of power
/// a start can go on in the middle of a log, and the frames of the lost history stay behind the new end. A frame that
/// `LogRepair` has made invalid has no checksum, so it stays invalid.
///
/// The format is that of `LogScan`. Precondition: the folder is locked, and no connection is open. O(bytes).
package struct LogCorrection {
  /// The bytes that take the place of others.
  private struct Change {
    /// The frame that they belong to; -1 for the header.
    var index: Int
    var bytes: [UInt8]

    var offset: Int { index < 0 ? 0 : LogCorrection.offset(ofFrame: index) }
  }

  /// Bytes of a log before they were corrected.
  struct Found {
    fileprivate var offset: Int
    fileprivate var bytes: [UInt8]
  }

  private static let headerBytes = 32
  private static let frameHeaderBytes = 24
  private static let frameBytes = frameHeaderBytes + SQLiteStore.pageBytes
  /// The bytes of a header that may be altered, so that its other numbers prove it as well.
  private static let alteredBytesMax = 4

  private let file: Int32
  private var salts: [UInt8]
  private var sum: LogSum
  private var changes: [Change] = []
  /// The last frame of the last complete transaction; -1 if there is none.
  private var end = -1

  /// Corrects the log of a database file. Returns whether bytes were altered.
  ///
  /// - Throws: `StoreError.inaccessible`.
  package static func run(database path: String) throws(StoreError) -> Bool {
    try !correct(database: path).isEmpty
  }

  /// Corrects the log of a database file. Returns the bytes that were corrected, as they were before.
  ///
  /// - Throws: `StoreError.inaccessible`.
  static func correct(database path: String) throws(StoreError) -> [Found] {
    let path = path + "-wal"
    let file = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW)
    guard file >= 0 else {
      guard errno == ENOENT else { throw .unopenable(path, errno) }
      return []
    }
    defer { close(file) }
    guard var correction = LogCorrection(file) else { return [] }
    correction.readFrames()
    var found: [Found] = []
    for change in correction.provenChanges {
      guard let bytes = read(file, change.bytes.count, at: change.offset) else {
        throw .unopenable(path, errno)
      }
      found.append(Found(offset: change.offset, bytes: bytes))
      try write(change.bytes, at: change.offset, file, path)
    }
    guard found.isEmpty || fsync(file) == 0 else { throw .unopenable(path, errno) }
    return found
  }

  /// Writes bytes that were corrected into a copy of the log, as they were before.
  ///
  /// - Throws: `StoreError.inaccessible`.
  static func restore(_ found: [Found], in copy: String) throws(StoreError) {
    guard !found.isEmpty else { return }
    let file = open(copy, O_WRONLY | O_CLOEXEC | O_NOFOLLOW)
    guard file >= 0 else { throw .unopenable(copy, errno) }
    defer { close(file) }
    for part in found { try write(part.bytes, at: part.offset, file, copy) }
  }

  private static func write(
    _ bytes: [UInt8], at offset: Int, _ file: Int32, _ path: String
  ) throws(StoreError) {
    guard pwrite(file, bytes, bytes.count, off_t(offset)) == bytes.count else {
      throw .unopenable(path, errno)
    }
  }

  /// Reads the header; nil if it is damaged and not proven.
  private init?(_ file: Int32) {
    guard let header = Self.read(file, Self.headerBytes, at: 0) else { return nil }
    var proven = header
    if LogSum(logHeader: header) == nil {
      guard let first = Self.read(file, Self.frameBytes, at: Self.headerBytes),
        let found = Self.headers(before: first).first(where: { found in
          zip(found, header).count { $0 != $1 } <= Self.alteredBytesMax
        })
      else { return nil }
      proven = found
      changes = [Change(index: -1, bytes: found)]
    }
    guard let sum = LogSum(logHeader: proven), LogSum.word(proven, 8) == SQLiteStore.pageBytes
    else { return nil }
    self.file = file
    self.sum = sum
    salts = Array(proven[16..<24])
  }

  /// Returns the headers after which a frame has its checksum, one for each order of bytes at most.
  private static func headers(before frame: [UInt8]) -> [[UInt8]] {
    [0x82, 0x83].compactMap { (magic: UInt8) -> [UInt8]? in
      let salts = Array(frame[8..<16])
      let beginning: [UInt8] = [0x37, 0x7F, 0x06, magic, 0x00, 0x2D, 0xE2, 0x18]
      var begun = LogSum(isBigEndian: magic & 1 == 1)
      beginning.withUnsafeBytes { begun.add($0) }
      var whole = LogSum(storedIn: frame, isBigEndian: magic & 1 == 1)
      whole.remove(contents(of: frame))
      var rest = whole
      rest.remove(salts)
      // The size of a page, and the counter.
      let numbers = begun.bytes(to: rest)
      guard LogSum.word(numbers, 0) == SQLiteStore.pageBytes else { return nil }
      return beginning + numbers + salts + whole.stored
    }
  }

  // MARK: Frames

  /// Reads the frames up to the first that is neither intact nor proven.
  private mutating func readFrames() {
    var index = 0
    while let frame = read(index) {
      var next = sum
      if next.add(frame: frame[...], salts: salts) {
        note(frame, index)
      } else if let corrected = corrected(frame, index, next) {
        next = sum
        guard next.add(frame: corrected[...], salts: salts) else { return }
        changes.append(Change(index: index, bytes: corrected))
        note(corrected, index)
      } else {
        return
      }
      sum = next
      index += 1
    }
  }

  private mutating func note(_ frame: [UInt8], _ index: Int) {
    if LogSum.word(frame, 4) != 0 { end = index }
  }

  /// Returns a frame with the bytes that its checksum proves; nil if it proves none.
  ///
  /// - Parameter computed: the checksum that the frame must have with its present contents.
  private func corrected(_ frame: [UInt8], _ index: Int, _ computed: LogSum) -> [UInt8]? {
    let hasSalts = frame[8..<16].elementsEqual(salts)
    let alteredBytes = zip(frame[16..<24], computed.stored).count { $0 != $1 }
    // The next frame shows whether the checksum was altered, or the end of the page, which has the same effect on it.
    let isSumAltered = hasSalts && alteredBytes == 1 && isIntact(index + 1, after: computed)
    if alteredBytes == 0 || isSumAltered {
      return Array(frame[..<8] + salts + computed.stored + frame[24...])
    }
    let contents = Self.contents(of: frame)
    let stored = LogSum(storedIn: frame, isBigEndian: sum.isBigEndian)
    guard hasSalts, alteredBytes > 1 || isIntact(index + 1, after: stored),
      let bit = computed.changedBit(of: contents, to: stored)
    else { return nil }
    var corrected = frame
    corrected[bit.offset < 8 ? bit.offset : bit.offset + 16] ^= bit.mask
    return corrected
  }

  private func isIntact(_ index: Int, after sum: LogSum) -> Bool {
    guard let frame = read(index) else { return false }
    var sum = sum
    return sum.add(frame: frame[...], salts: salts)
  }

  /// The changes up to the end of the log.
  private var provenChanges: [Change] {
    guard end >= 0 else { return [] }
    return changes.filter { $0.index <= end }
  }

  // MARK: Bytes

  private static func offset(ofFrame index: Int) -> Int { headerBytes + index * frameBytes }

  /// Returns the bytes that the checksum of a frame covers.
  private static func contents(of frame: [UInt8]) -> [UInt8] {
    Array(frame[..<8] + frame[frameHeaderBytes...])
  }

  private func read(_ index: Int) -> [UInt8]? {
    Self.read(file, Self.frameBytes, at: Self.offset(ofFrame: index))
  }

  private static func read(_ file: Int32, _ count: Int, at offset: Int) -> [UInt8]? {
    var bytes = [UInt8](repeating: 0, count: count)
    return pread(file, &bytes, count, off_t(offset)) == count ? bytes : nil
  }
}
