#if PostgreSQL
  internal import CanopyRows

  /// Passes the rows of a checkpoint on in order, without the priorities of branches that have no other row.
  ///
  /// A checkpoint that ended between two steps can leave such a row: it had removed the last children of the branch, but not
  /// yet inserted the next ones. The commits that it was folding contain those children and the priority.
  ///
  /// The rows below a branch follow each other. So a branch has another row if the last row of a value before the priority, or
  /// the first one after it, is below the branch. A priority waits for the latter.
  struct PriorityRows {
    private var waiting: [(path: [UInt8], value: [UInt8])] = []
    private var last: [UInt8] = []

    /// Adds the next row. Returns false if the pipe takes no more rows.
    mutating func add(
      _ path: UnsafeRawBufferPointer, _ value: UnsafeRawBufferPointer, to pipe: RowPipe
    ) -> Bool {
      guard path.suffix(PriorityRows.name.count).elementsEqual(PriorityRows.name) else {
        guard passOn(before: path, to: pipe) else { return false }
        last.removeAll(keepingCapacity: true)
        last.append(contentsOf: path)
        return pipe.add(path, value)
      }
      if waiting.isEmpty, last.starts(with: path.dropLast(PriorityRows.name.count)), !last.isEmpty {
        return pipe.add(path, value)
      }
      waiting.append((Array(path), Array(value)))
      return true
    }

    /// Ends the rows. Returns false if the pipe takes no more rows.
    mutating func finish(to pipe: RowPipe) -> Bool {
      passOn(before: nil, to: pipe)
    }

    private static let name = Array(".priority".utf8)

    private mutating func passOn(before next: UnsafeRawBufferPointer?, to pipe: RowPipe) -> Bool {
      guard !waiting.isEmpty else { return true }
      defer { waiting = [] }
      for row in waiting {
        let branch = row.path.dropLast(PriorityRows.name.count)
        let isAfterLast = !last.isEmpty && last.starts(with: branch)
        guard isAfterLast || next.map({ $0.starts(with: branch) }) ?? false else { continue }
        let isTaken = row.path.withUnsafeBytes { path in
          row.value.withUnsafeBytes { pipe.add(path, $0) }
        }
        guard isTaken else { return false }
      }
      return true
    }
  }
#endif
