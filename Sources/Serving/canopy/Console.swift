import ArgumentParser
import CanopyTree

struct Console: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    abstract: "Print a link that opens the console of a running server in a browser.",
    discussion: """
      The link is good for one use within five minutes, by a browser on this machine. Do not pass it to another \
      program as an argument, because all users of a machine see the arguments of programs.
      """)
  @OptionGroup var server: AdministratorOptions
  @Option(help: "The address of the HTTP port (http://127.0.0.1:9000).") var address: String?

  func run() async throws {
    try await Failure.explaining {
      let address = try Setting.value("address", address, default: "http://127.0.0.1:9000")
      let reply = try await server.use { connection in try await connection.success("PASS") }
      guard let token = reply["token"]?.string else {
        throw Failure("the server has answered without a token; run canopy of the server's version")
      }
      try Output.line("\(address)/console/#pass=\(token)")
    }
  }
}
