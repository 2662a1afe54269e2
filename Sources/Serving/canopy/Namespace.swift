import ArgumentParser
import CanopySQLite
import CanopyWire

struct Namespace: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    abstract: "Create and list namespaces: further databases of a server.",
    discussion: """
      A namespace has a tree, rules and a journal of its own, in the folder namespaces/NAME of the data folder. \
      Accounts are those of the server. The namespace default is the database of the blog, which always exists.
      """,
    subcommands: [Create.self, List.self])

  struct Create: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
      abstract: "Create a namespace.",
      discussion: """
        Its rules allow nothing; replace them with canopy rules set --namespace NAME. A running server opens the \
        namespace at its first use.
        """)
    @OptionGroup var folder: FolderOption
    @Argument(help: "The name: 1 to 63 of the characters a to z, 0 to 9 and -.") var name: String

    func run() async throws {
      try await Failure.explaining {
        let folders = NamespaceFolders(try folder.existingFolder())
        let name: NamespaceName
        do throws(WireError) { name = try NamespaceName(self.name) } catch {
          throw Failure(error.sentence)
        }
        guard name != .default, !folders.exists(name) else {
          throw Failure("the namespace \(name) exists already; choose another name")
        }
        try SQLiteStore(folder: folders.path(of: name)).close()
        Output.note("the namespace \(name) is created")
      }
    }
  }

  struct List: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
      abstract: "Print the names of the namespaces, one on each line.")
    @OptionGroup var folder: FolderOption

    func run() async throws {
      try await Failure.explaining {
        let folders = NamespaceFolders(try folder.existingFolder())
        try Output.line("\(NamespaceName.default)")
        for name in try folders.names() { try Output.line("\(name)") }
      }
    }
  }
}
