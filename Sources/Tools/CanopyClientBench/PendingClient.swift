import ArgumentParser
import CanopyClient
import Dispatch
import Foundation

/// A process that writes with persistence enabled and is killed before the server replies, or the
/// process that continues after it.
struct PendingClient: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "pending-client", abstract: "One process of a client that is killed.",
    shouldDisplay: false)

  @Option(help: "The port of the server.")
  var port: Int

  @Option(help: "The folder of persistence.")
  var folder: String

  @Option(
    help: "The numbers below /pending to increment by one; 0 to finish the pending writes.")
  var writes: Int

  @Flag(help: "End by a signal as soon as the last write is made.")
  var kill = false

  func run() async throws {
    var options = DatabaseOptions.quiet
    options.persistenceFolder = folder
    let database = try Database(url: "canopy://127.0.0.1:\(port)", options: options)
    database.callbackQueue = DispatchQueue(label: "canopy.bench.callbacks")
    database.isPersistenceEnabled = true
    guard database.isPersistenceEnabled else { throw BenchFailure("there is no persistence") }
    let pending = database.reference(withPath: "pending")
    guard writes > 0 else {
      // Writes are sent in order: once this one is committed, so are those of the earlier process.
      try await database.reference(withPath: "finished").setValue(true)
      return
    }
    try await Auth.auth(database: database).signIn(
      withAdministratorToken: ProcessInfo.processInfo.environment["CANOPY_TOKEN"] ?? "")
    for number in 1...writes {
      pending.child("n\(number)").setValue(ServerValue.increment(1)) { _, _ in }
    }
    if kill { Foundation.kill(getpid(), SIGKILL) }
    await database.recorded()
    FileHandle.standardOutput.write(Data("recorded\n".utf8))
    // Wait to be killed.
    while true { try await Task.sleep(for: .seconds(1)) }
  }
}
