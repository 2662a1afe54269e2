import CanopyTree
import Foundation
import Synchronization

/// A run of the fuzzer on a server of its own, with the checks before and after.
struct FuzzRun {
  let seed: UInt64
  let requests: Int
  /// A folder for the data of the server.
  let folder: String
  var connections = 8
  var batch = 100
  /// The only connection whose script is sent; nil for all.
  var only: Int?
  var growthBytesMax = 64 << 20
  var secondsMax = 5

  init(seed: UInt64, requests: Int, folder: String) {
    self.seed = seed
    self.requests = requests
    self.folder = folder
  }

  /// Every client may write below `/fuzz` and read `/safe`. All else is for the administrator.
  private static let rules = """
    {"rules":{"fuzz":{".read":true,".write":true,".indexOn":["a"]},"safe":{".read":true}}}
    """
  /// The number of further files that the journal may open.
  private static let filesMax = 12
  /// The data that no client of the fuzzer may change.
  static let data = #"{"a":{"n":1,"text":"one"},"b":[1,2,3],"c":"x"}"#

  /// The result of a run.
  struct Result {
    var problems: [String]
    /// The answers to the requests of the realtime protocol.
    var depth: FuzzAnswers.Depth
  }

  /// The answers from which on each action must have been accepted at least once, so that a run that does not reach the
  /// server's inner parts is noticed.
  private static let answersMin = 3_000

  /// Runs the fuzzer.
  ///
  /// - Parameter report: takes lines about the progress.
  /// - Throws: `BenchFailure` if the run cannot go on.
  func run(report: @Sendable (String) -> Void) throws -> Result {
    let errors = folder + ".errors"
    try Data().write(to: URL(fileURLWithPath: errors))
    defer { try? FileManager.default.removeItem(atPath: errors) }
    let log = try FileHandle(forWritingTo: URL(fileURLWithPath: errors))
    let server = try Server(
      folder: folder, arguments: ["--checkpoint-every", "20000", "--retained-commits", "1000"],
      hasHTTP: true, errors: log)
    defer { server.kill() }
    let token = try String(contentsOfFile: folder + "/admin-token", encoding: .utf8)
      .trimmingCharacters(in: .whitespacesAndNewlines)
    let administrator = try LineSocket(port: server.port)
    let user = try LineSocket(port: server.port).signUp("fuzz").token
    _ = try administrator.success("AUTH \(token)")
    for place in ["safe", "secret"] { _ = try administrator.success("SET /\(place) \(Self.data)") }
    _ = try administrator.success("RULES \(Self.rules)")
    let state = FuzzState(connections: only.map { $0...$0 } ?? 1...max(1, requests / (batch + 1)))
    let honest = try HonestClient(server, token: token, secondsMax: secondsMax)
    try honest.round()
    let before = try snapshot(administrator)
    // The first connections fill caches and pools.
    let warmUp = FuzzState(connections: 1...max(1, min(300, requests / (batch + 1) / 10)))
    try send(warmUp, server, user, honest, seed: seed ^ 0x5555, report: { _ in })
    try waitForEnd(of: server, sockets: nil, honest)
    let start = Resources(server)
    let began = monotonicNanoseconds()
    try send(state, server, user, honest, seed: seed, report: report)
    let seconds = Double(monotonicNanoseconds() - began) / 1e9
    let metrics = try honest.metrics()
    let answered = ["canopy_http_requests_total", "canopy_requests_total", "canopy_errors_total"]
    report(answered.map { "\($0) \(metrics[$0] ?? 0)" }.joined(separator: ", "))
    let depth = state.depth
    report("answers to messages over WebSockets by action:")
    for line in depth.lines { report("  " + line) }
    var problems = state.problems
    for action in FuzzConversation.actions
    where depth.total >= Self.answersMin && depth.accepted[action] == nil {
      problems.append("no request \(action) was accepted")
    }
    do { try waitForEnd(of: server, sockets: start.descriptors.sockets, honest) } catch {
      problems.append("\(error)")
    }
    _ = try administrator.success("SET /fuzz null")
    let end = Resources(server)
    try honest.round()
    if try snapshot(administrator) != before { problems.append("data changed outside /fuzz") }
    if end.residentBytes > start.residentBytes + growthBytesMax {
      problems.append(
        "the memory grew from \(start.residentBytes >> 20) to \(end.residentBytes >> 20) MiB")
    }
    // The journal opens some files when it needs them.
    if end.descriptors.all > start.descriptors.all + Self.filesMax {
      problems.append(
        "\(end.descriptors.all) files are open, \(start.descriptors.all) were at the start")
    }
    let text = (try? String(contentsOfFile: errors, encoding: .utf8)) ?? ""
    if !text.isEmpty { problems.append("the log has errors: \(text.suffix(2000))") }
    report(
      "\(state.requests) requests on \(state.finished) connections in \(Int(seconds)) s; "
        + "\(state.unclosed) connections were not closed within \(FuzzConnection.secondsMax) s after "
        + "the client sent no more; memory \(start.residentBytes >> 20) and \(end.residentBytes >> 20) "
        + "MiB, open files \(start.descriptors.all) and \(end.descriptors.all), "
        + "sockets \(start.descriptors.sockets) and \(end.descriptors.sockets); honest client: "
        + "\(honest.rounds) rounds, the longest \(Int(honest.worstMilliseconds)) ms")
    return Result(problems: problems, depth: depth)
  }

  /// The memory and the descriptors of a server.
  private struct Resources {
    var residentBytes: Int
    var descriptors: (all: Int, sockets: Int)

    init(_ server: Server) {
      residentBytes = (server.memoryKibibytes("VmRSS") ?? 0) * 1024
      descriptors = server.descriptors
    }
  }

  /// Returns everything that the fuzzer must not change.
  private func snapshot(_ administrator: LineSocket) throws -> [String] {
    try ["GET /safe", "GET /secret", "GET /users", "RULES", "GET /posts"].map { line in
      guard let reply = administrator.request(line), reply.hasPrefix("+") else {
        throw BenchFailure("\(line) failed")
      }
      return reply
    }
  }

  /// Waits until only the connections of this run are open: a client that is silent is cut off after a minute.
  private func waitForEnd(
    of server: Server, sockets: Int?, _ honest: HonestClient
  ) throws {
    let end = monotonicNanoseconds() + 100_000_000_000
    var last = (count: -1, since: monotonicNanoseconds())
    while true {
      let count = server.descriptors.sockets
      if let sockets, count <= sockets { return }
      if count != last.count { last = (count, monotonicNanoseconds()) }
      // Without a number to reach, the number that stays the same for a second is that of this run.
      if sockets == nil, monotonicNanoseconds() - last.since > 1_000_000_000 { return }
      guard monotonicNanoseconds() < end else {
        throw BenchFailure("\(count) sockets are open, \(sockets ?? 0) were at the start")
      }
      // A connection without requests would be cut off too.
      try honest.round()
      usleep(50_000)
    }
  }

  /// Sends the scripts from several threads. The calling thread is the honest client.
  private func send(
    _ state: FuzzState, _ server: Server, _ token: String, _ honest: HonestClient, seed: UInt64,
    report: (String) -> Void
  ) throws {
    guard let port = server.httpPort else { throw BenchFailure("the server has no HTTP port") }
    let done = DispatchSemaphore(value: 0)
    for _ in 0..<connections {
      Thread.detachNewThread { [batch] in
        while let number = state.next() {
          let script = FuzzScript(seed: seed, connection: number, requests: batch, token: token)
          do {
            var connection = try FuzzConnection(port: port)
            state.finish(number, script, connection.run(script))
          } catch {
            state.fail("connection \(number): \(error)")
          }
        }
        done.signal()
      }
    }
    var running = connections
    var reported = 0
    while running > 0 {
      do { try honest.round() } catch {
        state.fail("the honest client: \(error); under way: \(state.underWay)")
      }
      while running > 0, done.wait(timeout: .now() + .milliseconds(2)) == .success { running -= 1 }
      if state.requests - reported >= 100_000 {
        reported = state.requests
        report("\(reported) requests")
      }
    }
  }
}

/// The progress of a run. Threads share it.
final class FuzzState: Sendable {
  private struct State {
    var left: ClosedRange<Int>?
    var underWay: Set<Int> = []
    var requests = 0
    var finished = 0
    var unclosed = 0
    var depth = FuzzAnswers.Depth()
    var problems: [String] = []
  }

  private let state: Mutex<State>

  init(connections: ClosedRange<Int>) {
    state = Mutex(State(left: connections))
  }

  /// Returns the number of the next connection; nil after the last one or a failure.
  func next() -> Int? {
    state.withLock { state in
      guard let left = state.left, state.problems.count < 5 else { return nil }
      state.left = left.count > 1 ? (left.lowerBound + 1)...left.upperBound : nil
      state.underWay.insert(left.lowerBound)
      return left.lowerBound
    }
  }

  func finish(_ number: Int, _ script: FuzzScript, _ outcome: FuzzConnection.Outcome) {
    state.withLock { state in
      state.underWay.remove(number)
      state.requests += script.requests
      state.finished += 1
      if !outcome.isClosed { state.unclosed += 1 }
      state.depth.add(outcome.depth)
      if let complaint = outcome.complaint {
        state.problems.append("connection \(number): \(complaint)")
      }
    }
  }

  func fail(_ problem: String) {
    state.withLock { state in
      // The rest of a run without a server says nothing.
      state.problems.append(problem)
      state.left = nil
    }
  }

  var requests: Int { state.withLock { $0.requests } }
  var finished: Int { state.withLock { $0.finished } }
  var unclosed: Int { state.withLock { $0.unclosed } }
  var depth: FuzzAnswers.Depth { state.withLock { $0.depth } }
  var problems: [String] { state.withLock { $0.problems } }
  /// The connections whose scripts are being sent.
  var underWay: [Int] { state.withLock { $0.underWay.sorted() } }
}
