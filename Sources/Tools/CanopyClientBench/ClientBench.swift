import ArgumentParser

/// Benchmarks and stress tests of the client library against a server of this build.
@main
struct ClientBench: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "CanopyClientBench",
    abstract: "Cut connections, contended transactions and overhead of the client library.",
    subcommands: [
      Chaos.self, ChaosClient.self, Stars.self, StarClient.self, Transactions.self, Threads.self,
      Speed.self, PendingClient.self,
    ])
}

/// The reason why a run failed.
struct BenchFailure: Error, CustomStringConvertible {
  let description: String

  init(_ description: String) {
    self.description = description
  }
}
