import ArgumentParser
import CanopySQLite
import CanopyTree
import CanopyWire

struct Namespace: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    abstract: "Create, list and remove namespaces: further databases of a server.",
    discussion: """
      A namespace has a tree, rules and a journal of its own, in the folder namespaces/NAME of the data folder, or in \
      the database that --postgres names. \
      Accounts are those of the server. The namespace default is the database of the blog, which always exists.
      """,
    subcommands: [Create.self, List.self, Remove.self])

  struct Create: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
      abstract: "Create a namespace.",
      discussion: """
        Its rules allow nothing; replace them with canopy rules set --namespace NAME. A running server opens the \
        namespace at its first use.
        """)
    @OptionGroup var folder: FolderOption
    @OptionGroup var database: PostgresOption
    @Argument(help: "The name: 1 to 63 of the characters a to z, 0 to 9 and -.") var name: String

    func run() async throws {
      try await Failure.explaining {
        let name = try Namespace.name(self.name)
        if let url = try database.url(orFolder: folder) {
          guard name != .default else { throw exists(name) }
          try await PostgresList.create(name, url)
        } else {
          let folders = NamespaceFolders(try folder.ownFolder())
          try folders.deleteRests()
          try folders.checkIsNotMissing(name)
          guard name != .default, !folders.exists(name) else {
            _ = try folders.existingPath(of: name)
            throw exists(name)
          }
          try folders.create(name)
        }
        Output.note("the namespace \(name) is created")
      }
    }

    private func exists(_ name: NamespaceName) -> Failure {
      Failure("the namespace \(name) exists already; choose another name")
    }
  }

  struct Remove: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
      abstract: "Remove a namespace with all its data.",
      discussion: """
        The command asks for the name again, unless --yes is given. It refuses a namespace that a running server has \
        open: a server closes a namespace that was not used for ten minutes. Export what you may need first.
        """)
    @OptionGroup var folder: FolderOption
    @OptionGroup var database: PostgresOption
    @Argument(help: "The name.") var name: String
    @Flag(help: "Remove without a question.") var yes = false

    func run() async throws {
      try await Failure.explaining {
        let url = try database.url(orFolder: folder)
        let folders = url == nil ? NamespaceFolders(try folder.ownFolder()) : nil
        let name = try Namespace.name(self.name)
        guard name != .default else {
          throw Failure(
            "the namespace default is the database of the blog, and stays; choose another name")
        }
        try folders?.deleteRests()
        if let folders, !folders.isMissing(name) { try folders.checkExists(name) }
        if !yes { try confirm(name) }
        try folders?.remove(name)
        if let url { try await PostgresList.remove(name, url) }
        Output.note("the namespace \(name) is removed")
      }
    }

    private func confirm(_ name: NamespaceName) throws {
      Output.note("This removes the namespace \(name) with all its data. Type its name to go on:")
      guard readLine()?.hasSameBytes(as: name.text) ?? false else {
        throw Failure(
          "nothing is removed, because the name was not typed; --yes removes without it")
      }
    }
  }

  /// Returns the name that a text contains.
  ///
  /// - Throws: `Failure` if the text is not a valid name.
  private static func name(_ text: String) throws -> NamespaceName {
    do throws(WireError) { return try NamespaceName(text) } catch { throw Failure(error.sentence) }
  }

  struct List: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
      abstract: "Print the names of the namespaces, one on each line.")
    @OptionGroup var folder: FolderOption
    @OptionGroup var database: PostgresOption

    func run() async throws {
      try await Failure.explaining {
        let names: [NamespaceName]
        if let url = try database.url(orFolder: folder) {
          names = try await PostgresList.names(url)
        } else {
          names = try NamespaceFolders(try folder.existingFolder()).names()
        }
        try Output.line("\(NamespaceName.default)")
        for name in names { try Output.line("\(name)") }
      }
    }
  }
}
