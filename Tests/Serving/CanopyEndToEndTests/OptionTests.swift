import CanopyTesting
import CanopyTree
import Foundation
import Testing

/// Options of `canopy serve`, from the command line and from the environment.
@Suite(.timeLimit(.minutes(20)), .serialized) struct OptionTests {
  /// Each option with a valid value and invalid ones.
  private static let options: [(name: String, right: String, wrong: [String])] = [
    ("data", "", []), ("postgres", "", []), ("host", "127.0.0.1", []),
    ("port", "0", ["65536", "-1", "http", "1.5"]),
    ("durability", "relaxed", ["fast"]), ("line-bytes-max", "2000", ["0", "-1", "1k"]),
    ("connections-max", "3", ["0", "many"]), ("connections-per-address-max", "2", ["0", "x"]),
    ("signups-per-minute", "1", ["0", "x"]),
    ("logins-per-minute", "1", ["0", "x"]), ("hashes-waiting-max", "8", ["0", "-1"]),
    ("hashes-waiting-per-address-max", "4", ["0", "all"]),
    ("hashers-max", "1", ["0", "99999999999999999999"]), ("checkpoint-every", "10", ["0", "-5"]),
    ("checkpoint-after", "1000000000", ["0", "1000000001", "5m"]),
    ("retained-commits", "10", ["0", "all"]), ("retained-bytes", "1000", ["0", "1G"]),
    ("checkpoint-bytes", "1000", ["0", "all"]), ("retained-seconds", "1", ["0", "1h"]),
    ("listeners-max", "3", ["0", "x"]), ("queued-bytes-max", "100000", ["0", "1M"]),
    ("writes-per-second", "1", ["0", "x"]), ("write-bytes-per-second", "1000", ["0", "1k"]),
    ("writes-per-second-per-address", "1", ["0", "x"]),
    ("write-bytes-per-second-per-address", "1000", ["0", "x"]),
    ("write-burst-seconds", "40", ["0", "1m"]), ("writes-on-this-machine", "limited", ["yes"]),
    ("storage-bytes-max", "100000", ["0", "1M"]), ("free-bytes-min", "0", ["-1", "1G"]),
    ("tree-max", "1000000000", ["-1", "1G"]),
    ("tree-bytes-per-day-per-address", "0", ["-1", "all"]),
    ("namespaces-max", "2", ["0", "x"]), ("memory-max", "100000000", ["0", "1G"]),
    ("heartbeat-seconds", "5", ["0", "32768"]), ("timeout-seconds", "15", ["0", "32768"]),
    ("http-port", "0", ["none", "65536"]), ("project", "my-blog", ["a b", "é", "a/b"]),
    ("allow-origin", "https://a.example,http://b.example:8080", ["a.example", "https://a/", ","]),
    ("backup-every", "1000000000", ["0", "1000000001", "1h"]), ("backups-kept", "1", ["0", "x"]),
    ("scrub-every", "0", ["-1", "1000000001", "1d"]),
    ("threads", "1", ["0", "two"]),
    ("log-level", "debug", ["loud"]),
  ]

  private static func variable(_ name: String) -> String {
    "CANOPY_" + name.uppercased().replacing("-", with: "_")
  }

  @Test func `the options are those of the help text`() async throws {
    let help = try await Command.run(["serve", "--help"])
    #expect(help.status == 0, "\(help)")
    let names = help.text.split(separator: "\n").compactMap { line in
      line.drop { $0 == " " }.hasPrefix("--")
        ? line.drop { $0 == " " }.dropFirst(2).prefix { $0 != " " } : nil
    }
    // A loss is accepted, and an emulator trusts all clients, for one start. The environment, which lasts, cannot say so.
    // The files of TLS have their own tests.
    let listed = Set(names.map(String.init)).subtracting([
      "help", "version", "accept-loss", "check", "emulator", "tls-certificate", "tls-key",
    ])
    #expect(listed == Set(Self.options.map(\.name)))
  }

  @Test func `the environment can set every option`() async throws {
    let folder = try TemporaryFolder()
    var environment: [String: String] = [:]
    for option in Self.options { environment[Self.variable(option.name)] = option.right }
    environment["CANOPY_DATA"] = folder.path
    let server = try await ServerProcess(data: nil, environment: environment)
    let client = try await server.connect()
    #expect(try await client.value("HELLO")["limits"]?["lineBytes"]?.integer == 2_000)
    try await client.value("SIGNUP ada@example.org \"engine of 1843\" ada")
    // The limits by address exempt this machine, but the limit of changes of the password does not.
    try await client.value("SIGNUP eve@example.org \"engine of 1843\" eve")
    let login = "LOGIN ada@example.org \"engine of 1843\""
    for _ in 0..<2 { try await client.value(login) }
    try await client.value("PASSWORD \"engine of 1843\" \"engine of 1844\"")
    try await client.expect(
      "PASSWORD \"engine of 1844\" \"engine of 1843\"", failsWith: "RATE_LIMITED")
    for number in 0..<30 { try await client.value("POST title \(number)") }
    // Forty at once, and one in a second.
    var posted = "+"
    for number in 0..<1_000 where posted.hasPrefix("+") {
      posted = try await client.request("POST title \(number)")
    }
    expectReply(posted, to: "POST title", hasPrefix: "-RATE_LIMITED [")
    let others = [try await server.connect(), try await server.connect()]
    for other in others { try await other.expect("PING", "+\"PONG\"") }
    let last = try await server.connect()
    try await last.expectNext(to: "a connection", failsWith: "OVERLOADED")
    #expect(try await server.terminate() == 0)
    #expect(FileManager.default.fileExists(atPath: folder.path + "/canopy.sqlite"))
    #expect(server.log.contains(" debug "))
  }

  @Test func `an option on the command line overrides the environment`() async throws {
    let folder = try TemporaryFolder()
    let environment = ["CANOPY_LINE_BYTES_MAX": "2000", "CANOPY_DATA": "/nowhere/at/all"]
    let server = try await ServerProcess(
      data: folder.path, ["--line-bytes-max", "3000"], environment: environment)
    let client = try await server.connect()
    #expect(try await client.value("HELLO")["limits"]?["lineBytes"]?.integer == 3_000)
    #expect(try await server.terminate() == 0)
  }

  @Test func `the error for an invalid value names the option`() async throws {
    let folder = try TemporaryFolder()
    for option in Self.options {
      for value in option.wrong {
        let arguments = ["serve", "--data", folder.path]
        let given = try await Command.run(arguments + ["--\(option.name)=\(value)"])
        #expect(given.isSentence, "--\(option.name) \(value): \(given)")
        #expect(given.errors.contains("--\(option.name)"))
        let set = try await Command.run(
          arguments, environment: [Self.variable(option.name): value])
        #expect(set.isSentence, "\(option.name)=\(value): \(set)")
        let names = ["--\(option.name)", Self.variable(option.name)]
        #expect(names.contains { set.errors.contains($0) }, "\(set.errors)")
      }
    }
  }

  @Test func `the error for a folder that is missing or cannot be created names it`() async throws {
    let missing = try await Command.run(["serve"])
    #expect(missing.isSentence && missing.errors.contains("CANOPY_DATA"), "\(missing)")
    let impossible = try await Command.run(["serve", "--data", "/proc/canopy"])
    #expect(impossible.status > 0 && impossible.status < 128, "\(impossible)")
    #expect(impossible.errors.hasPrefix("Error: the data folder /proc/canopy cannot be created"))
    for command in ["verify", "export"] {
      let nothing = try await Command.run([command, "--data", "/proc/canopy"])
      #expect(nothing.isSentence, "\(nothing)")
    }
  }

  #if !PostgreSQL
    @Test func `a program without PostgreSQL says how to build one`() async throws {
      let folder = try TemporaryFolder()
      let data = folder.path + "/data"
      for command in [["serve"], ["namespace", "list"]] {
        let refused = try await Command.run(
          command + ["--postgres", "postgresql://127.0.0.1/canopy"],
          environment: ["CANOPY_DATA": data])
        #expect(refused.isSentence && refused.errors.contains("--traits"), "\(refused)")
        #expect(!FileManager.default.fileExists(atPath: data))
      }
    }
  #endif
}
