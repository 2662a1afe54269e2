import ArgumentParser
import CanopyAccounts
import CanopyEngine
import CanopyIdentity
import CanopyWire
import Foundation

struct Migrate: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    abstract: "Move a server from a data folder to a PostgreSQL database, or back.",
    discussion: """
      The command copies all namespaces: the trees with the numbers of their last commits, the rules, the writes that \
      clients may send again, the on-disconnect writes, the accounts with their logins, the keys of identity tokens and \
      the administrator's token. It reads the copy again and compares it with the original. Then the copy gets its name \
      in one step, so it exists as a whole or not at all. The original stays as it is. The history of commits is not \
      copied: clients that connect again get the present state. Stop the server, or all nodes, first.
      Examples:
        canopy migrate --from data --to postgresql://canopy@db.example/canopy
        canopy migrate --from postgresql://canopy@db.example/canopy --to data
      """)

  @Option(help: "The data folder, or the URL of the database, to read.") var from: String
  @Option(
    help: "The URL of the database, without data of Canopy, or the folder, new or empty, to fill.")
  var to: String

  func run() async throws {
    try await Failure.explaining {
      switch (Self.isURL(from), Self.isURL(to)) {
      case (false, true): try await Moving.toDatabase(Setting.path(from), url: to)
      case (true, false): try await Moving.toFolder(Setting.path(to), url: from)
      default:
        throw ValidationError(
          "one of --from and --to is a data folder, and the other one a URL that begins with postgresql://"
        )
      }
    }
  }

  private static func isURL(_ text: String) -> Bool {
    ["postgresql://", "postgres://"].contains { text.hasPrefix($0) }
  }
}
