internal import CanopyTree
internal import Foundation

/// The pages with the definitions of tables, indexes and triggers, read without SQLite.
///
/// SQLite reads no definitions if the form of one row was altered, or the beginning of a page. The texts are there then,
/// next to each other, with the number of the first page between them:
///
///     table accounts accounts 5 CREATE TABLE accounts(…
///
/// The program knows these texts. So a search for them finds the number, whatever the bytes around them say. The format is
/// SQLite's: https://sqlite.org/fileformat2.html
struct DefinitionPages {
  /// The number of pages of the file.
  let count: Int64
  private let pages: [[UInt8]]

  /// Reads the pages of a file without a log; nil if the first one cannot be read.
  init?(path: String) {
    guard let file = FileHandle(forReadingAtPath: path), let size = try? file.seekToEnd() else {
      return nil
    }
    let pageBytes = UInt64(DatabaseHead.pageBytes)
    let count = Int64(clamping: size / pageBytes)
    func page(_ number: Int64) -> [UInt8]? {
      guard (1...max(1, count)).contains(number),
        (try? file.seek(toOffset: UInt64(number - 1) * pageBytes)) != nil,
        let data = try? file.read(upToCount: DatabaseHead.pageBytes)
      else { return nil }
      return Array(data)
    }
    guard let first = page(1) else { return nil }
    self.count = count
    // The first page names the others, if there are any: one in its head, and one at the beginning of each row.
    let rows = Int(Self.number(first, 103, 2))
    let places = (0..<rows).map { Int(Self.number(first, 112 + 2 * $0, 2)) } + [108]
    let others = Set(places.map { Self.number(first, $0, 4) }).subtracting([1]).sorted()
    pages = [first] + others.compactMap(page)
  }

  /// Returns the number of some bytes; 0 if they are not in the page.
  private static func number(_ page: [UInt8], _ offset: Int, _ bytes: Int) -> Int64 {
    guard offset >= 0, offset + bytes <= page.count else { return 0 }
    return number(page[offset..<offset + bytes])
  }

  private static func number(_ bytes: ArraySlice<UInt8>) -> Int64 {
    bytes.reduce(0) { $0 << 8 | Int64($1) }
  }

  /// Whether the texts of a definition are there.
  func contains(_ definition: Definition) -> Bool { !roots(of: definition).isEmpty }

  /// Returns the number of the first page of a table; nil if its definition is not there, or if there are several numbers.
  func root(of definition: Definition) -> Int64? {
    let roots = roots(of: definition)
    guard roots.count == 1, let root = roots.first, root >= 2, root <= count else { return nil }
    return root
  }

  /// Returns the numbers that are between the texts of a definition; 0 for those of a trigger.
  private func roots(of definition: Definition) -> Set<Int64> {
    guard let sql = definition.sql.map({ Array($0.text.utf8) }) else { return [] }
    let names = Array(
      (definition.type.text + definition.name.text + definition.table.text).utf8)
    var roots: Set<Int64> = []
    for page in pages {
      var rest = page[...]
      while let found = rest.firstRange(of: sql) {
        rest = page[(found.lowerBound + 1)...]
        for bytes in 0...4 {
          let before = page[..<found.lowerBound].dropLast(bytes)
          guard before.suffix(names.count).elementsEqual(names) else { continue }
          roots.insert(Self.number(page[before.endIndex..<found.lowerBound]))
        }
      }
    }
    return roots
  }
}
