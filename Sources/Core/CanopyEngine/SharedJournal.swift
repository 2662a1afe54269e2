/// A journal that several engines write.
///
/// Each engine appends with the number of the last commit that it knows, so only one of them has the next number. An
/// engine that lost the race adopts the commits that it missed and decides its batch again: see
/// ``Engine``. The journal stores the ``Commit/note`` of each commit and returns it with the commit.
public protocol SharedJournal: Journal {
  /// Reads commits after a number, in order, with their origins and notes, until the page is full or there are no more.
  ///
  /// - Throws: `JournalError.forgotten` if the journal no longer has the next commit; the store's error.
  func commits(after sequence: Int64, bytesMax: Int) async throws -> [Commit]

  /// Waits until there may be commits after a number: another engine has appended, the connection was made again, or the
  /// time is up. May return without reason. Ends when the task is cancelled.
  func waitForCommits(after sequence: Int64, atMost: Duration) async

  /// Waits for the turn, which one engine has at a time, in the order in which the engines asked for it. Appends of the
  /// others wait until `endTurn`, or until the engine that has the turn is gone.
  ///
  /// - Returns: whether the engine has the turn; false if the journal offers none.
  /// - Throws: the store's error; then the engine does not have the turn.
  func takeTurn() async throws -> Bool

  /// Ends the turn.
  func endTurn() async
}

extension SharedJournal {
  /// False: the journal offers no turns.
  public func takeTurn() async throws -> Bool { false }

  /// Does nothing: the journal offers no turns.
  public func endTurn() async {}
}
