import ArgumentParser

/// The command. Each subcommand parses its options, creates the parts that it needs, and runs.
@main
struct Canopy: AsyncParsableCommand {
  static let version = "0.1.0"

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
