#if PostgreSQL
  internal import CanopyEngine
  internal import CanopyRows
  internal import CanopyTree

  /// A row of `commits`, with the columns of ``columns``.
  enum CommitRow {
    /// The columns in the order that the other members expect.
    static let columns = "sequence, time, body, before, client, number, seen, note, checksum"

    /// Returns the checksum that a row must have after its predecessor.
    static func checksum(
      after previous: Checksum, _ sequence: Int64, _ time: Int64, _ body: UnsafeRawBufferPointer,
      _ before: UnsafeRawBufferPointer?, origin: WriteOrigin?, note: String?
    ) -> Checksum {
      var checksum = Checksum.commit(after: previous, sequence, time, body, before)
      if let origin {
        checksum.add(origin.storedClient)
        checksum.add(origin.number)
        checksum.add(origin.seen)
      }
      if let note { checksum.add(note) }
      return checksum
    }

    /// Checks a row against its predecessor. Returns the end of the journal after it.
    ///
    /// - Throws: `PostgresError.damaged`.
    static func check(
      _ rows: Rows, _ row: Int, after previous: Checksum
    ) throws(PostgresError) -> PostgresStore.Tail {
      let sequence = try rows.int(row, 0)
      guard let body = rows.bytes(row, 2) else { throw .missing(commit: sequence) }
      let expected = checksum(
        after: previous, sequence, try rows.int(row, 1), body, rows.bytes(row, 3),
        origin: try origin(rows, row), note: rows.optionalText(row, 7))
      guard expected.stored == (try rows.int(row, 8)) else {
        throw .altered("commit \(sequence), or the one before it,")
      }
      return PostgresStore.Tail(sequence: sequence, checksum: expected)
    }

    /// Returns the origin of a commit; nil when its client does not send the commit again.
    static func origin(_ rows: Rows, _ row: Int) throws(PostgresError) -> WriteOrigin? {
      guard let client = rows.optionalText(row, 4) else { return nil }
      let (number, seen) = (try rows.int(row, 5), try rows.int(row, 6))
      do throws(TreeError) {
        return try WriteOrigin(storedClient: client, number: number, seen: seen)
      } catch {
        throw .unreadable("the origin of a commit", error.sentence)
      }
    }

    /// Decodes a commit with its origin and its note.
    ///
    /// - Parameter hasImage: whether to decode the before-image as well.
    static func commit(_ rows: Rows, _ row: Int, hasImage: Bool = false) throws -> Commit {
      let sequence = try rows.int(row, 0)
      let none = UnsafeRawBufferPointer(start: nil, count: 0)
      do {
        let assignments = try AssignmentCodec.decode(rows.bytes(row, 2) ?? none)
        var commit = Commit(
          sequence: sequence, time: try rows.int(row, 1), assignments: assignments,
          origin: try origin(rows, row),
          note: try rows.optionalText(row, 7).map { text throws(JournalError) in
            try CommitNote(text: text)
          })
        if hasImage, let image = rows.bytes(row, 3) {
          commit.beforeImage = try BeforeImageCodec.decode(image, of: assignments)
        }
        return commit
      } catch let error as TreeError {
        throw PostgresError.unreadable("commit \(sequence)", error.sentence)
      }
    }
  }

  extension PostgresError {
    /// Returns the error for a row that cannot be decoded.
    static func unreadable(_ name: String, _ reason: String) -> PostgresError {
      .damaged("\(name) cannot be read (\(reason)): \(waysOut)")
    }
  }
#endif
