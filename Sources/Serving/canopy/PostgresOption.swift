import ArgumentParser

/// The option for the database of a server with several nodes, in commands that work on a data folder or on that.
struct PostgresOption: ParsableArguments {
  @Option(
    help:
      "The URL of the PostgreSQL database of a server with several nodes, instead of a data folder."
  )
  var postgres: String?

  /// Returns the URL; nil if the command works on a data folder. A folder on the command line overrides a URL in the
  /// environment.
  ///
  /// - Throws: `Failure` if the program was built without PostgreSQL.
  func url(orFolder folder: FolderOption) throws -> String? {
    if postgres == nil, folder.data != nil { return nil }
    let url = try Setting.value("postgres", postgres)
    if url != nil { try Self.check() }
    return url
  }

  /// Throws the sentence for a program that was built without PostgreSQL.
  static func check() throws {
    #if !PostgreSQL
      throw Failure(
        "this program was built without PostgreSQL; build it with swift build --traits Server,PostgreSQL, or leave "
          + "--postgres and CANOPY_POSTGRES out")
    #endif
  }
}
