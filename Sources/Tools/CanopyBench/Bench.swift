import ArgumentParser

/// Measures and torments a server from outside, through its protocol alone.
@main
struct Bench: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "CanopyBench",
    abstract:
      "Comparison with other systems, contention, crashes, damage and data sets for Canopy.",
    subcommands: [
      Compare.self, Contention.self, SlowReader.self, Crash.self, Flip.self, Flood.self,
      Generate.self, Judging.self, ClientCore.self, EchoServer.self,
    ])
}

/// Why a measurement ended early.
struct BenchFailure: Error, CustomStringConvertible {
  let description: String

  init(_ description: String) {
    self.description = description
  }
}
