import ArgumentParser
import CanopyClient
import Dispatch
import Foundation
import Synchronization

/// A chaos test: two client processes write through a network that cuts, delays and splits the
/// data. Afterwards both copies must equal the server's tree, and the tree must agree with each ``ChaosTally``.
struct Chaos: AsyncParsableCommand {
  static let configuration = CommandConfiguration(abstract: "Cut the connections of two clients.")

  @Option(help: "How many times a connection is cut.")
  var cuts = 1000

  @Option(help: "The protocol of the clients: line or realtime.")
  var transport = ChaosTransport.line

  @Option(help: "What decides all chance; printed when it is drawn.")
  var seed: UInt64?

  func run() async throws {
    let seed = seed ?? UInt64.random(in: 0...UInt64(UInt32.max))
    print("chaos --cuts \(cuts) --transport \(transport.rawValue) --seed \(seed)")
    let server = try ServerProcess(transport)
    defer { server.stop() }
    let proxy = ChaosProxy(target: server.port, seed: seed, cuts: cuts)
    let port = try await proxy.start()
    let names = ["a", "b"]
    let clients = try names.enumerated().map { index, name in
      try ClientProcess(
        [
          "chaos-client", "--port", "\(port)", "--name", name, "--others",
          names.joined(separator: ","),
          "--seed", "\(seed &+ UInt64(index) &+ 1)", "--transport", transport.rawValue,
        ], token: server.token)
    }
    let started = ContinuousClock.now
    while !proxy.isCalm { try await Task.sleep(for: .milliseconds(20)) }
    for client in clients { try client.finish() }
    var copies: [String] = []
    var problems: [String] = []
    var tallies: [ChaosTally] = []
    var events = 0
    for (name, client) in zip(names, clients) {
      let lines = try client.lines()
      guard lines.count >= 3 else { throw BenchFailure("client \(name) said too little") }
      copies.append(lines[0])
      tallies.append(try JSONDecoder().decode(ChaosTally.self, from: Data(lines[1].utf8)))
      events += Int(lines[2]) ?? -1
      problems += lines[3...].map { "\(name): \($0)" }
    }
    let database = try Database(url: transport.url(port: server.port), options: .quiet)
    try await Auth.auth(database: database).signIn(withAdministratorToken: server.token)
    let truth = try await database.reference(withPath: "chaos").getData()
    for (name, copy) in zip(names, copies) where copy != canonical(truth.value) {
      problems.append("the copy of \(name) differs from the server's tree")
    }
    problems += ChaosTally.problems(of: tallies, in: truth, cuts: proxy.cuts, over: transport)
    let seconds = started.duration(to: .now) / .seconds(1)
    print(
      "\(proxy.cuts) cuts in \(String(format: "%.1f", seconds)) s, "
        + "\(tallies.reduce(0) { $0 + $1.written }) writes, "
        + "\(tallies.reduce(0) { $0 + $1.committed }) transactions, \(events) events, "
        + "\(problems.count) problems")
    for problem in problems.prefix(20) { print(problem) }
    if !problems.isEmpty { throw ExitCode.failure }
  }
}

/// One client of `chaos`.
struct ChaosClient: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "chaos-client", abstract: "One client of chaos.", shouldDisplay: false)

  @Option var port: Int
  @Option var name: String
  @Option var others: String
  @Option var seed: UInt64
  @Option var transport: ChaosTransport

  func run() async throws {
    var options = DatabaseOptions.quiet
    options.backoff = Backoff(first: 2, max: 40)
    let database = try Database(url: transport.url(port: port), options: options)
    database.callbackQueue = DispatchQueue(label: "callbacks")
    try await signIn(database)
    let worker = ChaosWorker(database, name: name, seed: seed, transport)
    let isOver = Atomic(false)
    Thread.detachNewThread {
      while !FileHandle.standardInput.availableData.isEmpty {}
      isOver.store(true, ordering: .relaxed)
    }
    await worker.write { !isOver.load(ordering: .relaxed) }
    let copy = try await worker.finish(with: others.split(separator: ",").map(String.init))
    print(copy)
    print(String(decoding: try JSONEncoder().encode(worker.tally), as: UTF8.self))
    print(worker.events)
    for problem in worker.problems { print(problem) }
  }

  /// Signs in, and tries again if a cut loses the reply.
  private func signIn(_ database: Database) async throws {
    let token = ProcessInfo.processInfo.environment["CANOPY_TOKEN"] ?? ""
    for attempt in 1... {
      do {
        try await Auth.auth(database: database).signIn(withAdministratorToken: token)
        return
      } catch let error as AuthError where error.code == .networkError && attempt < 100 {
        continue
      }
    }
  }
}

extension ChaosTransport: ExpressibleByArgument {}
