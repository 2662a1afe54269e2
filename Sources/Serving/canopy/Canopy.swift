import ArgumentParser

/// The command: each subcommand parses its options, composes what it needs, and runs.
@main
struct Canopy: AsyncParsableCommand {
  static let version = "0.1.0"

  static let configuration = CommandConfiguration(
    commandName: "canopy",
    abstract: "A social-blogging backend on a realtime tree database.",
    discussion: """
      Every option can also be given as an environment variable: --data as CANOPY_DATA, \
      --signups-per-minute as CANOPY_SIGNUPS_PER_MINUTE, and so on. The option wins.
      """,
    version: version,
    subcommands: [
      Serve.self, Seed.self, Import.self, Export.self, Verify.self, User.self, Rules.self,
      Shell.self,
    ])
}
