import ArgumentParser
import CanopyTree
import Foundation
import Histogram
import Synchronization

struct Flood: ParsableCommand {
  static let configuration = CommandConfiguration(
    abstract: "Flood a server with requests that cost memory or work, beside an honest client.",
    discussion: """
      During each flood, the server's memory may grow by --memory-max and a share for the allocator, and \
      each STAR of the honest client must take less than 100 ms. A missed bound is an error.
      """)

  @Option(help: "The --memory-max of the server in MiB.") var memoryMebibytes = 256
  @Option(help: "The seconds of each flood.") var seconds = 8.0
  @Option(help: "The bytes of JSON in /posts.") var postBytes = 15_600_000
  @Option(help: "Run only the floods whose names contain this text.") var only = ""
  @Flag(help: "Store small values instead of posts: many more nodes for the same bytes.")
  var small =
    false

  /// The share of the allowed memory that the allocator and the kernel may take in addition.
  private static let allocatorShare = 0.1
  private static let worstMillisecondsMax = 100.0
  /// The largest ratio of the honest client's 99th percentile during a flood to that of an idle server.
  private static let slowdownMax = 3.0
  /// A percentile below this is noise: one turn of the scheduler with more threads than cores.
  private static let noiseMilliseconds = 3.0

  func run() throws {
    let folder = FileManager.default.temporaryDirectory
      .appendingPathComponent("canopy-flood-\(ProcessInfo.processInfo.processIdentifier)").path
    defer { try? FileManager.default.removeItem(atPath: folder) }
    let server = try Server(
      folder: folder, arguments: ["--memory-max", "\(memoryMebibytes * 1024 * 1024)"])
    let administrator = try LineSocket(port: server.port)
    let token = try String(contentsOfFile: folder + "/admin-token", encoding: .utf8)
    _ = try administrator.success("AUTH \(token.trimmingCharacters(in: .whitespacesAndNewlines))")
    try fill(administrator)
    let honest = try LineSocket(port: server.port)
    _ = try honest.signUp("honest")
    guard let post = try honest.success("POST Honest \"star me\"")["id"]?.string else {
      throw BenchFailure("no post")
    }
    let idle = try stars(honest, post, while: nil, server)
    print(idle.line("idle"))
    let busy = try stars(honest, post, while: FloodKind.computing, server)
    print(busy.line(FloodKind.computing.name) + " (for comparison: it sends nothing)")
    var missed: [String] = []
    for flood in FloodKind.all where only.isEmpty || flood.name.contains(only) {
      let before = server.memoryKibibytes("VmRSS") ?? 0
      server.forgetPeakMemory()
      let result = try stars(honest, post, while: flood, server)
      let grown = ((server.memoryKibibytes("VmHWM") ?? 0) - before) / 1024
      print(result.line(flood.name) + ", memory +\(grown) MiB")
      let grownMax = Int(Double(memoryMebibytes) * (1 + Flood.allocatorShare))
      if grown > grownMax { missed.append("\(flood.name): +\(grown) MiB, at most \(grownMax)") }
      if result.worst >= Flood.worstMillisecondsMax {
        missed.append("\(flood.name): a STAR took \(result.worst) ms")
      }
      let p99Max = max(Flood.slowdownMax * idle.p99, Flood.noiseMilliseconds)
      if result.p99 > p99Max {
        missed.append("\(flood.name): p99 is \(result.p99) ms, at most \(p99Max)")
      }
    }
    server.kill()
    for text in missed { print("MISSED \(text)") }
    if !missed.isEmpty { throw ExitCode(1) }
  }

  private func fill(_ administrator: LineSocket) throws {
    let text = String(repeating: "words ", count: 150)
    var (left, number) = (postBytes, 0)
    while left > 0 {
      let members = (0..<400).map { _ -> String in
        number += 1
        let values =
          small
          ? (0..<60).map { "\"\($0)k\":[\($0),\(number)]" }.joined(separator: ",")
          : "\"title\":\"Post \(number)\",\"body\":\"\(text)\",\"starCount\":\(number % 97)"
        return "\"-Mfl\(String(1_000_000_000_000_000 + number))\":{\"uid\":\"u\",\(values)}"
      }.joined(separator: ",")
      _ = try administrator.success("UPDATE /posts {\(members)}")
      left -= members.utf8.count
    }
    let users = (0..<5_000).map { "\"u\($0)\":{\"username\":\"name\($0)\",\"uid\":\"u\($0)\"}" }
    _ = try administrator.success("UPDATE /users {\(users.joined(separator: ","))}")
    for number in 0..<300 { _ = try administrator.success("SET /ticks \(number)") }
  }

  /// The latencies that an honest client has measured.
  private struct Latencies {
    var p50 = 0.0
    var p99 = 0.0
    var worst = 0.0
    var count = 0

    func line(_ name: String) -> String {
      name.padding(toLength: 44, withPad: " ", startingAt: 0)
        + String(format: "p50 %.2f  p99 %.2f  worst %.2f ms of %d STAR", p50, p99, worst, count)
    }
  }

  /// Stars a post up to two hundred times a second during a flood.
  private func stars(
    _ socket: LineSocket, _ post: String, while flood: FloodKind?, _ server: Server
  ) throws -> Latencies {
    let isOver = EndFlag()
    let done = DispatchSemaphore(value: 0)
    let port = server.port
    for number in 0..<(flood?.connections ?? 0) {
      let thread = Thread {
        // Real attackers have their own machines, so these must not take the cores from the others.
        setpriority(__priority_which_t(PRIO_PROCESS.rawValue), 0, 19)
        while !isOver.value {
          guard let attacker = try? Attacker(port: port, isOver) else {
            Thread.sleep(forTimeInterval: 0.05)
            continue
          }
          flood?.attack(attacker, number)
        }
        done.signal()
      }
      thread.stackSize = 256 * 1024
      thread.start()
    }
    var latencies = Histogram<UInt64>(
      highestTrackableValue: 60_000_000_000, numberOfSignificantValueDigits: .three)
    let end = monotonicNanoseconds() + Int64(seconds * 1e9)
    var failure: String?
    while monotonicNanoseconds() < end {
      let start = monotonicNanoseconds()
      let reply = socket.request("STAR \(post)")
      latencies.record(UInt64(monotonicNanoseconds() - start))
      guard let reply, reply.hasPrefix("+") else {
        failure = "\(flood?.name ?? "idle"): the honest client got \(reply ?? "no reply")"
        break
      }
      Thread.sleep(forTimeInterval: 0.005)
    }
    isOver.end()
    for _ in 0..<(flood?.connections ?? 0) { done.wait() }
    if let failure { throw BenchFailure(failure) }
    return Latencies(
      p50: Double(latencies.valueAtPercentile(50)) / 1e6,
      p99: Double(latencies.valueAtPercentile(99)) / 1e6,
      worst: Double(latencies.max) / 1e6, count: Int(latencies.totalCount))
  }
}

/// A flag that can be set once.
final class EndFlag: Sendable {
  private let flag = Mutex(false)

  var value: Bool { flag.withLock { $0 } }

  func end() { flag.withLock { $0 = true } }
}

/// A kind of flood.
struct FloodKind: Sendable {
  var name: String
  var connections: Int
  /// Attacks on one connection, until it ends or the flood is over.
  var attack: @Sendable (Attacker, _ number: Int) -> Void

  /// No flood: as many threads compute as the machine has cores. The latencies beside them show how much of those of
  /// a flood comes from the attackers, which run on the same machine, and not from the server.
  static let computing = FloodKind(
    name: "computing threads, which send nothing",
    connections: ProcessInfo.processInfo.activeProcessorCount
  ) { attacker, number in
    var generator = SplitMix64(seed: UInt64(number))
    while !attacker.isOver {
      var sum: UInt64 = 0
      for _ in 0..<10_000 { sum ^= generator.next() }
      attacker.keep(sum)
    }
  }

  static let all: [FloodKind] = [
    FloodKind(name: "CAS of a large value, unread", connections: 8) { attacker, _ in
      attacker.send(String(repeating: "CAS /posts x 1\n", count: 1_024))
      attacker.wait()
    },
    FloodKind(name: "CAS of a value that may not be read", connections: 8) { attacker, _ in
      while attacker.send("CAS /users x 1\n"), attacker.read(1) {}
    },
    FloodKind(name: "GET of a large value, unread", connections: 150) { attacker, _ in
      attacker.send("GET /posts\n")
      attacker.wait()
    },
    FloodKind(name: "GET of a large value, read", connections: 4) { attacker, _ in
      while attacker.send("GET /posts\n"), attacker.read(1) {}
    },
    FloodKind(name: "GET with an ETag, read", connections: 4) { attacker, _ in
      while attacker.send("GET /posts {\"etag\":true}\n"), attacker.read(1) {}
    },
    FloodKind(name: "unfinished lines", connections: 300) { attacker, _ in
      attacker.send("SET /a \"" + String(repeating: "x", count: 1_000_000))
      attacker.wait()
    },
    FloodKind(name: "large UPDATEs that are denied", connections: 24) { attacker, number in
      let members = (0..<40_000).map { "\"a\($0)/b\":\($0)" }.joined(separator: ",")
      let line = "UPDATE /notes/x\(number) {\(members)}\n"
      while attacker.send(line) {}
    },
    FloodKind(name: "LISTEN with since, closed at once", connections: 16) { attacker, _ in
      attacker.send(String(repeating: "LISTEN /posts {\"since\":1}\n", count: 25))
    },
    FloodKind(name: "value views with since", connections: 16) { attacker, _ in
      let lines = (0..<60).map { (index: Int) -> String in
        "LISTEN /posts {\"events\":\"value\",\"orderBy\":\"$key\",\"limitToLast\":\(15_000 + index),"
          + "\"since\":1}\n"
      }
      attacker.send(lines.joined())
      attacker.wait()
    },
    FloodKind(name: "value views, read", connections: 4) { attacker, _ in
      attacker.send("LISTEN /posts {\"events\":\"value\"}\n")
      while attacker.read(1) {}
    },
    FloodKind(name: "children of a large place, read", connections: 4) { attacker, _ in
      while attacker.send("LISTEN /posts\nUNLISTEN 1\n"), attacker.read(2) {}
    },
  ]
}

/// A connection of an attacker. Used by one thread.
final class Attacker {
  private let socket: TCPSocket
  private let end: EndFlag
  private var kept: UInt64 = 0

  init(port: Int, _ isOver: EndFlag) throws {
    socket = try TCPSocket(port: port)
    socket.stopWaiting()
    end = isOver
  }

  /// Whether the flood is over.
  var isOver: Bool { end.value }

  /// Keeps a result, so that its computation is not left out.
  func keep(_ result: UInt64) {
    kept ^= result
  }

  /// Sends text. Returns whether the server has accepted it before the end of the flood.
  @discardableResult
  func send(_ text: String) -> Bool {
    let bytes = Array(text.utf8)
    var sent = 0
    while sent < bytes.count {
      if isOver { return false }
      let count = bytes[sent...].withUnsafeBytes {
        Glibc.send(socket.descriptor, $0.baseAddress, $0.count, Int32(MSG_NOSIGNAL))
      }
      if count > 0 {
        sent += count
      } else if count < 0, errno == EAGAIN {
        poll(POLLOUT)
      } else {
        return false
      }
    }
    return true
  }

  /// Reads a number of lines, and ignores them. Returns false if the connection or the flood has ended.
  func read(_ lines: Int) -> Bool {
    var left = lines
    var chunk = [UInt8](repeating: 0, count: 256 * 1024)
    while left > 0 {
      if isOver { return false }
      let count = recv(socket.descriptor, &chunk, chunk.count, 0)
      if count > 0 {
        for byte in chunk[..<count] where byte == UInt8(ascii: "\n") { left -= 1 }
      } else if count < 0, errno == EAGAIN {
        poll(POLLIN)
      } else {
        return false
      }
    }
    return true
  }

  /// Waits without reading until the server closes the connection or the flood is over.
  func wait() {
    while !isOver {
      var descriptor = pollfd(fd: socket.descriptor, events: 0, revents: 0)
      if Glibc.poll(&descriptor, 1, 100) > 0 { return }
    }
  }

  private func poll(_ events: Int32) {
    var descriptor = pollfd(fd: socket.descriptor, events: Int16(events), revents: 0)
    _ = Glibc.poll(&descriptor, 1, 100)
  }
}
