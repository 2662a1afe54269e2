import ArgumentParser

struct Generate: ParsableCommand {
  static let configuration = CommandConfiguration(
    abstract: "Write a data set of posts as JSON for canopy import.")

  @Option var posts = 1_000_000
  @Option var users = 1_000
  @Option(help: "The number of bytes in each body.") var bodyBytes = 300
  @Argument var file: String

  func run() throws {
    try DataSet(posts: posts, users: users, bodyBytes: bodyBytes).writeExport(to: file)
  }
}
