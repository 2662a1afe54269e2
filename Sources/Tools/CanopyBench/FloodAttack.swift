import ArgumentParser
import CanopyTree
import Foundation
import Synchronization

/// The attackers of a flood: a process of their own.
///
/// In the process of the honest client, their threads of the lowest priority could hold a lock that the client needs:
/// one of the allocator, or the kernel's lock of the memory of a process.
final class FloodAttackers {
  private let process = Process()

  /// Starts the attackers.
  init(of flood: FloodKind, port: Int) throws {
    process.executableURL = URL(fileURLWithPath: "/proc/self/exe")
    process.arguments = ["flood-attack", "\(port)", flood.name]
    try process.run()
    Children.add(process.processIdentifier, endedBy: SIGKILL)
  }

  /// The processor time that the attackers have used.
  var use: Usage { Usage(processID: process.processIdentifier) }

  /// Ends the attackers and their connections.
  func end() {
    kill(process.processIdentifier, SIGKILL)
    process.waitUntilExit()
    Children.remove(process.processIdentifier)
  }
}

/// Attacks a server until the process is killed, or its parent, which is `flood`, has ended.
struct FloodAttack: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "flood-attack", abstract: "Attack a server until killed.", shouldDisplay: false)

  @Argument(help: "The port of the server.") var port: Int
  @Argument(help: "The name of the flood.") var name: String

  /// `SCHED_IDLE`, which Glibc does not show to Swift.
  private static let idlePolicy: CInt = 5

  func run() throws {
    guard let flood = ([FloodKind.computing] + FloodKind.all).first(where: { $0.name == name })
    else { throw ValidationError("there is no flood \(name)") }
    // Real attackers have their own machines, so these must not take the cores from the others. Threads of the lowest
    // priority made the honest client wait some milliseconds longer than threads of this policy do.
    var parameter = sched_param()
    guard sched_setscheduler(0, FloodAttack.idlePolicy, &parameter) == 0 else {
      throw BenchFailure("the attackers cannot stand back: errno \(errno)")
    }
    for number in 0..<flood.connections {
      let thread = Thread { [port] in
        while true {
          guard let attacker = try? Attacker(port: port) else {
            Thread.sleep(forTimeInterval: 0.05)
            continue
          }
          flood.attack(attacker, number)
        }
      }
      thread.stackSize = 256 * 1024
      thread.start()
    }
    // If the bench is killed, it cannot end its attackers.
    let parent = getppid()
    while getppid() == parent { Thread.sleep(forTimeInterval: 0.5) }
  }
}

/// A kind of flood.
struct FloodKind: Sendable {
  var name: String
  var connections: Int
  /// Attacks on one connection until it ends.
  var attack: @Sendable (Attacker, _ number: Int) -> Void

  /// No flood: as many threads compute as the machine has cores. The latencies beside them show how much of those of
  /// a flood comes from the attackers, which run on the same machine, and not from the server.
  static let computing = FloodKind(
    name: "computing threads, which send nothing",
    connections: ProcessInfo.processInfo.activeProcessorCount
  ) { attacker, number in
    var generator = SplitMix64(seed: UInt64(number))
    while true {
      var sum: UInt64 = 0
      for _ in 0..<10_000 { sum ^= generator.next() }
      attacker.keep(sum)
    }
  }

  private static let unfinishedLine =
    "SET /a \""
    + String(decoding: [UInt8](repeating: UInt8(ascii: "x"), count: 1_000_000), as: UTF8.self)
  private static let members = (0..<40_000).map { "\"a\($0)/b\":\($0)" }.joined(separator: ",")

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
      attacker.send(FloodKind.unfinishedLine)
      attacker.wait()
    },
    FloodKind(name: "large UPDATEs that are denied", connections: 24) { attacker, number in
      while attacker.send("UPDATE /notes/x\(number) {\(FloodKind.members)}\n") {}
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
///
/// One attacker at a time sends or reads. With hundreds of threads that all want to run, a thread of the server would
/// wait for their slices of time, up to half a second, and the flood would measure the scheduler.
final class Attacker {
  private static let turn = Mutex(())
  private static let chunkBytes = 64 * 1024
  private let socket: TCPSocket
  private var kept: UInt64 = 0

  init(port: Int) throws {
    socket = try TCPSocket(port: port)
    socket.stopWaiting()
  }

  /// Keeps a result, so that its computation is not left out.
  func keep(_ result: UInt64) {
    kept ^= result
  }

  /// Sends text. Returns whether the server has accepted it.
  @discardableResult
  func send(_ text: @autoclosure () -> String) -> Bool {
    let bytes = Attacker.turn.withLock { _ in Array(text().utf8) }
    var sent = 0
    while sent < bytes.count {
      let chunk = bytes[sent..<min(bytes.count, sent + Attacker.chunkBytes)]
      let count = Attacker.turn.withLock { _ in
        chunk.withUnsafeBytes {
          Glibc.send(socket.descriptor, $0.baseAddress, $0.count, Int32(MSG_NOSIGNAL))
        }
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

  /// Reads a number of lines, and ignores them. Returns false if the connection has ended.
  func read(_ lines: Int) -> Bool {
    var left = lines
    var chunk = [UInt8](repeating: 0, count: Attacker.chunkBytes)
    while left > 0 {
      let (count, lines) = Attacker.turn.withLock { _ in
        let count = recv(socket.descriptor, &chunk, chunk.count, 0)
        return (count, chunk.prefix(max(0, count)).count { $0 == UInt8(ascii: "\n") })
      }
      if count > 0 {
        left -= lines
      } else if count < 0, errno == EAGAIN {
        poll(POLLIN)
      } else {
        return false
      }
    }
    return true
  }

  /// Waits without reading until the server closes the connection.
  func wait() {
    while true {
      var descriptor = pollfd(fd: socket.descriptor, events: 0, revents: 0)
      if Glibc.poll(&descriptor, 1, 100) > 0 { return }
    }
  }

  private func poll(_ events: Int32) {
    var descriptor = pollfd(fd: socket.descriptor, events: Int16(events), revents: 0)
    _ = Glibc.poll(&descriptor, 1, 100)
  }
}
