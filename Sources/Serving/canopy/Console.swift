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
  @Option(help: "The address of the HTTP port (the server says it).") var address: String?

  func run() async throws {
    try await Failure.explaining {
      let given = try Setting.value("address", address)
      let reply = try await server.use { connection in try await connection.success("PASS") }
      guard let token = reply["token"]?.string else {
        throw Failure("the server has answered without a token; run canopy of the server's version")
      }
      // A server of an older version does not say its address.
      let address = given ?? reply["console"]?.string ?? "http://127.0.0.1:9000"
      guard given != nil || reply["console"] != .null else {
        throw Failure("the server has no HTTP port; start it with --http-port 9000")
      }
      try Output.line("\(address)/console/#pass=\(token)")
    }
  }
}
