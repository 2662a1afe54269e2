internal import Foundation

/// The keys in the inner pages of a database, which divide the rows of a table among its leaf pages.
///
/// The pages are read from the file and its log without SQLite, which stops at damage. The keys only say where a scan
/// begins: if damaged pages have wrong ones, a scan finds fewer rows, and never other rows than SQLite reads. The format
/// is SQLite's: https://sqlite.org/fileformat2.html
package struct SalvagePages {
  /// A leaf page, or a page that cannot be read.
  package struct Leaf {
    /// A bound of the keys of the page: none is less.
    package var low: SalvageKey?
    package var page: Int
  }

  /// The part of a page that belongs to one row.
  private struct Cell {
    /// The page with the keys before this one; 0 in a leaf page.
    var child: Int
    var key: SalvageKey?
  }

  private let file: FileHandle
  private let log: FileHandle?
  /// The position in the log of the newest version of each page.
  private var logOffsets: [Int: UInt64] = [:]
  private let pageBytes: Int
  /// The number of bytes of a page that SQLite uses.
  private let usableBytes: Int

  /// Opens the files of a database for reading; nil if there is no file with a first page.
  package init?(path: String) {
    guard let file = FileHandle(forReadingAtPath: path),
      let head = try? file.read(upToCount: 100), head.count == 100
    else { return nil }
    let bytes = Array(head)
    let size = SalvagePages.word(bytes, 16, 2) ?? 0
    self.file = file
    pageBytes = size == 1 ? 65_536 : size
    usableBytes = pageBytes - Int(bytes[20])
    log = FileHandle(forReadingAtPath: path + "-wal")
    guard pageBytes >= 512, usableBytes >= 480 else { return nil }
    readLog(of: path)
  }

  /// Finds the pages of the complete transactions in the log. O(bytes of the log on the disk).
  private mutating func readLog(of path: String) {
    guard let frames = try? LogFrames(database: path, pageBytes: pageBytes) else { return }
    var found: [Int: UInt64] = [:]
    while let (frame, offset) = try? frames.next() {
      guard frame[8..<16].elementsEqual(frames.salts) else { return }
      found[SalvagePages.word(frame, 0, 4) ?? 0] = UInt64(offset + LogFrames.frameHeaderBytes)
      guard SalvagePages.word(frame, 4, 4) != 0 else { continue }
      logOffsets.merge(found) { $1 }
      found = [:]
    }
  }

  /// Returns the leaf pages of a table in the order of their keys. O(pages of the table).
  ///
  /// - Parameters:
  ///   - hasNumbers: whether the rows have numbers, and no key of their own.
  ///   - least: the least key.
  package func leaves(root: Int, hasNumbers: Bool, least: SalvageKey) -> [Leaf] {
    var leaves: [Leaf] = []
    var open = [Leaf(low: nil, page: root)]
    // A damaged page could lead to a page above it.
    var seen: Set<Int> = []
    while let next = open.popLast() {
      guard seen.insert(next.page).inserted else { continue }
      guard let page = read(next.page), page[0] == (hasNumbers ? 5 : 2) else {
        leaves.append(next)
        continue
      }
      var low = next.low
      for cell in cells(page, least) {
        open.append(Leaf(low: low, page: cell.child))
        low = cell.key ?? low
      }
      open.append(Leaf(low: low, page: SalvagePages.word(page, 8, 4) ?? 0))
    }
    return leaves.sorted { one, other in
      guard let high = other.low else { return false }
      return one.low.map { SalvageRange.precedes($0, high) } ?? true
    }
  }

  /// Returns the keys of the rows of a leaf page in their order; none if the page cannot be read.
  package func keys(of leaf: Leaf, hasNumbers: Bool, least: SalvageKey) -> [SalvageKey] {
    guard let page = read(leaf.page), page[0] == (hasNumbers ? 13 : 10) else { return [] }
    return cells(page, least).compactMap(\.key).sorted { SalvageRange.precedes($0, $1) }
  }

  private func read(_ number: Int) -> [UInt8]? {
    guard number > 1 else { return nil }
    let offset = logOffsets[number]
    guard let handle = offset == nil ? file : log else { return nil }
    do {
      try handle.seek(toOffset: offset ?? UInt64(number - 1) * UInt64(pageBytes))
      let bytes = Array(try handle.read(upToCount: pageBytes) ?? Data())
      return bytes.count == pageBytes ? bytes : nil
    } catch { return nil }
  }

  private func cells(_ page: [UInt8], _ least: SalvageKey) -> [Cell] {
    let kind = page[0]
    let isInner = kind == 2 || kind == 5
    return (0..<(SalvagePages.word(page, 3, 2) ?? 0)).compactMap { index in
      guard var offset = SalvagePages.word(page, (isInner ? 12 : 8) + 2 * index, 2) else {
        return nil
      }
      let child = isInner ? SalvagePages.word(page, offset, 4) ?? 0 : 0
      if isInner { offset += 4 }
      guard let first = SalvagePages.variable(page[...], offset) else { return nil }
      switch kind {
      case 5:
        // The number is the last one before the next page.
        let (next, isOver) = first.value.addingReportingOverflow(1)
        return Cell(child: child, key: isOver ? nil : [.number(next)])
      case 13:
        let number = SalvagePages.variable(page[...], first.end)
        return Cell(child: child, key: number.map { [.number($0.value)] })
      default:
        let end = first.end + localBytes(first.value)
        return Cell(
          child: child, key: SalvagePages.key(page[..<min(end, page.count)], first.end, least))
      }
    }
  }

  /// Returns the number of bytes of a row with a key that are in the page itself.
  private func localBytes(_ size: Int64) -> Int {
    let most = (usableBytes - 12) * 64 / 255 - 23
    let least = (usableBytes - 12) * 32 / 255 - 23
    guard size > most, size < Int64(Int32.max) else {
      return min(max(Int(clamping: size), 0), most)
    }
    let local = least + (Int(size) - least) % (usableBytes - 4)
    return local <= most ? local : least
  }

  /// Returns the first columns of a row. A text that goes on in another page is cut, and then comes before the key.
  static func key(_ row: ArraySlice<UInt8>, _ start: Int, _ least: SalvageKey)
    -> SalvageKey?
  {
    guard let head = variable(row, start), head.value >= 0, head.value <= Int64(row.count) else {
      return nil
    }
    var (type, body) = (head.end, start + Int(head.value))
    var key: SalvageKey = []
    for kind in least {
      guard let (code, end) = variable(row, type), body <= row.endIndex,
        let (part, bytes) = part(row[body...], code), part.isLike(kind)
      else { return nil }
      key.append(part)
      guard bytes <= row.endIndex - body else { break }
      (type, body) = (end, body + bytes)
    }
    return key + least.dropFirst(key.count)
  }

  /// Returns the value at the start of some bytes, and its length; nil if it is neither a whole number, a text nor a blob.
  private static func part(_ bytes: ArraySlice<UInt8>, _ code: Int64) -> (SalvageKeyPart, Int)? {
    switch code {
    case 1...6:
      let count = [1, 2, 3, 4, 6, 8][Int(code) - 1]
      guard bytes.count >= count else { return nil }
      let negative: Int64 = (bytes.first ?? 0) >= 0x80 ? -1 : 0
      return (.number(bytes.prefix(count).reduce(negative) { $0 << 8 | Int64($1) }), count)
    case 8, 9: return (.number(code - 8), 0)
    case 12...Int64(Int32.max):
      let count = Int(code - 12) / 2
      let value = Array(bytes.prefix(count))
      return (code % 2 == 0 ? .blob(value) : .text(value), count)
    default: return nil
    }
  }

  static func word(_ bytes: [UInt8], _ offset: Int, _ count: Int) -> Int? {
    guard offset >= 0, offset + count <= bytes.count else { return nil }
    return bytes[offset..<offset + count].reduce(0) { $0 << 8 | Int($1) }
  }

  /// Returns a number of one to nine bytes, and the offset after it.
  static func variable(_ bytes: ArraySlice<UInt8>, _ offset: Int) -> (
    value: Int64, end: Int
  )? {
    var value: Int64 = 0
    for index in 0..<9 {
      guard offset + index < bytes.endIndex, offset >= bytes.startIndex else { return nil }
      let byte = bytes[offset + index]
      if index == 8 { return (value << 8 | Int64(byte), offset + 9) }
      value = value << 7 | Int64(byte & 0x7F)
      if byte < 0x80 { return (value, offset + index + 1) }
    }
    return nil
  }
}
