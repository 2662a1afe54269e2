import ArgumentParser
import Foundation

/// The command. Each subcommand parses its options, creates the parts that it needs, and runs.
@main
struct Canopy: AsyncParsableCommand {
  static let version = "0.1.0"

  /// Runs the command of the arguments. All files are those of the user alone: SQLite would let others read a new
  /// database until its mode is changed, and they could keep it open.
  static func main() async {
    umask(0o077)
    await main(nil)
  }

  static let configuration = CommandConfiguration(
    commandName: "canopy",
    abstract: "A social-blogging backend on a realtime tree database.",
    discussion: """
      An option with a value can also be set by an environment variable: --data by CANOPY_DATA, \
      --signups-per-minute by CANOPY_SIGNUPS_PER_MINUTE, and so on. If both are set, the option applies.
      """,
    version: version,
    subcommands: [
      Serve.self, Seed.self, Import.self, Export.self, Backup.self, Restore.self, Verify.self,
      Repair.self,
      User.self, Rules.self,
      Namespace.self, Migrate.self, Shell.self, Console.self,
    ])
}
