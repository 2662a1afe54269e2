/// A journal that can begin with the contents of another one.
public protocol MovableJournal: Journal {
  /// Begins with a tree, as if its commits had been folded and removed. Clients cannot resume from before.
  ///
  /// Stores the tree in steps, then everything else in one transaction.
  ///
  /// Precondition: the journal is empty, and no engine uses it.
  ///
  /// - Parameter state: the contents. A journal that does not keep rules ignores them.
  func begin(with state: JournalState) async throws
}
