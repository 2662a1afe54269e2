extension SQLiteStore {
  /// Accepts the losses, closes the folder, and opens it again with the checks of any start. So losses are accepted only
  /// if the next start succeeds, too.
  ///
  /// - Parameter now: the time in milliseconds since 1970: see ``acceptLosses(at:)``.
  /// - Returns: the losses, and the store that takes the place of this one, which is closed.
  /// - Throws: `StoreError` if the rest of the file cannot be used; then only a backup helps.
  public func acceptLossesAndReopen(
    at now: Int64? = nil
  ) async throws -> (losses: Losses, store: SQLiteStore) {
    let losses: Losses
    do { losses = try await acceptLosses(at: now) } catch {
      // Otherwise SQLite would copy the log into a file with damaged pages.
      try? close()
      throw error
    }
    try close()
    var configuration = configuration
    configuration.acceptsLoss = false
    do {
      return (losses, try SQLiteStore(folder: folder, configuration: configuration))
    } catch let error as StoreError {
      throw StoreError.beyondRepair(error)
    }
  }
}
