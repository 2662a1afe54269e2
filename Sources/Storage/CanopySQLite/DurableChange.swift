/// The commits and the other durable changes in a transaction, as its pages show them without SQLite.
///
/// The frames behind a damaged one of a write-ahead log are not proven, and some pages are missing. So this only shows
/// whether the transaction was a durable one. The steps of a checkpoint are not: several of them may be lost with the
/// power, together with the transaction after them.
struct DurableChange: Equatable {
  /// The greatest number of a row that looks like a commit; nil if no row does.
  private(set) var sequence: Int64?
  /// The number of changes to accounts, tokens and on-disconnect writes; nil if no page has it.
  private(set) var revision: Int64?

  /// Whether the transaction shows no durable change.
  var isEmpty: Bool { sequence == nil && revision == nil }

  /// The kinds of pages: leaves of tables with numbers, and leaves of tables with keys.
  private static let (numberedLeaf, keyedLeaf): (UInt8, UInt8) = (13, 10)

  /// Adds a page. O(bytes of the page).
  mutating func add(_ page: [UInt8]) {
    guard let kind = page.first,
      [DurableChange.numberedLeaf, DurableChange.keyedLeaf].contains(kind),
      let count = SalvagePages.word(page, 3, 2)
    else { return }
    for index in 0..<count {
      guard let offset = SalvagePages.word(page, 8 + 2 * index, 2),
        let size = SalvagePages.variable(page[...], offset)
      else { return }
      if kind == DurableChange.keyedLeaf {
        noteRevision(page[...], size.end)
      } else if let number = SalvagePages.variable(page[...], size.end),
        SequenceRange.contains(number.value), DurableChange.isCommit(page[...], number.end)
      {
        sequence = max(sequence ?? 0, number.value)
      }
    }
  }

  /// Whether a row begins with the kinds of the columns of a commit: the number, which is that of the row, a time, a text,
  /// a text or nothing, and a checksum.
  private static func isCommit(_ page: ArraySlice<UInt8>, _ start: Int) -> Bool {
    guard let head = SalvagePages.variable(page, start), (6...16).contains(head.value) else {
      return false
    }
    var (codes, offset): ([Int64], Int) = ([], head.end)
    while offset < start + Int(head.value) {
      guard let code = SalvagePages.variable(page, offset) else { return false }
      codes.append(code.value)
      offset = code.end
    }
    func isText(_ code: Int64) -> Bool { code >= 13 && code % 2 == 1 }
    return codes.count == 5 && codes[0] == 0 && (1...6).contains(codes[1]) && isText(codes[2])
      && (codes[3] == 0 || isText(codes[3])) && [1, 2, 3, 4, 5, 6, 8, 9].contains(codes[4])
  }

  private mutating func noteRevision(_ page: ArraySlice<UInt8>, _ start: Int) {
    let key = SalvagePages.key(page, start, [.text([]), .number(0)])
    guard let key, key.count == 2, case .text(let name) = key[0], case .number(let value) = key[1],
      name.elementsEqual(Meta.Name.revision.rawValue.utf8)
    else { return }
    revision = max(revision ?? 0, value)
  }

  /// Returns the number of transactions that have added commits or other durable changes, each to those of the ones
  /// before it.
  ///
  /// - Parameters:
  ///   - changes: those of the transactions behind the damage, in their order.
  ///   - sequence: the number of the last commit before the damage.
  ///   - revision: the number of other changes before the damage.
  static func count(
    in changes: [DurableChange], after sequence: Int64, _ revision: Int64
  ) -> Int {
    var (sequence, revision, count) = (sequence, revision, 0)
    for change in changes {
      let isLater = (change.sequence ?? 0) > sequence || (change.revision ?? 0) > revision
      guard isLater else { continue }
      sequence = max(sequence, change.sequence ?? 0)
      revision = max(revision, change.revision ?? 0)
      count += 1
    }
    return count
  }
}
