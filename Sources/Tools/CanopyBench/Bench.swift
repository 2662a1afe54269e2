import ArgumentParser

/// The benchmarks and stress tests of a server, through its protocol alone.
@main
struct Bench: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "CanopyBench",
    abstract:
      "Benchmarks and stress tests of Canopy: comparison, contention, crashes, damage, floods, quotas and malformed input.",
    subcommands: commands)

  private static var commands: [any ParsableCommand.Type] {
    var commands: [any ParsableCommand.Type] = [
      Compare.self, Steady.self, Growth.self, Contention.self, SlowReader.self, Crash.self,
      Flip.self, Flood.self, FloodAttack.self, QuotaLoad.self, BackupLoad.self, Fuzz.self,
      Generate.self, RulesCost.self, RequestCost.self, NodeCost.self, ClientCore.self,
      EchoServer.self, BareHTTPServer.self,
    ]
    #if HummingbirdBench
      commands.append(HummingbirdServer.self)
    #endif
    return commands
  }
}

/// The reason for which a measurement ended early.
struct BenchFailure: Error, CustomStringConvertible {
  let description: String

  init(_ description: String) {
    self.description = description
  }
}
