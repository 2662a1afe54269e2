import CanopyTesting
import Foundation
import Testing

/// Signals at commands and servers, and folders that two processes want to use.
@Suite(.timeLimit(.minutes(20)), .serialized) struct SignalTests {
  private let folder: TemporaryFolder
  private var data: String { folder.file("data") }

  init() throws {
    folder = try TemporaryFolder()
  }

  /// Makes a data folder whose copy takes a while.
  private func fill() async throws {
    let text = String(repeating: "x", count: 500_000)
    let members = (1...60).map { "\"\($0)\":\"\(text)\"" }.joined(separator: ",")
    try await Command.run(["import", "--data", data], input: "{\(members)}").expect(status: 0)
  }

  /// Starts a command, and sends it a signal as soon as a temporary file exists. Returns its status.
  private func interrupt(
    _ arguments: [String], by number: Int32, whenExists isTemporary: (String, Int32) -> Bool
  ) async throws -> Int32 {
    let process = Process()
    process.executableURL = URL(filePath: Command.path)
    process.arguments = arguments
    process.environment = Command.base.merging(["TMPDIR": folder.path]) { $1 }
    process.standardError = FileHandle.nullDevice
    process.standardOutput = FileHandle.nullDevice
    let ending = ProcessEnding()
    process.terminationHandler = { ending.set($0) }
    try process.run()
    let pid = process.processIdentifier
    try await eventually {
      try ending.now != nil || folder.files().contains { isTemporary($0, pid) }
    }
    kill(pid, number)
    return try await ending.status()
  }

  @Test(arguments: [SIGHUP, SIGTERM])
  func `a command that a signal or a closed terminal ends leaves no copy`(number: Int32)
    async throws
  {
    try await fill()
    let (file, new) = (folder.file("backup.tar"), folder.file("new"))
    let backup = try await interrupt(["backup", "--data", data, file], by: number) {
      $0 == ".backup.tar.part-\($1)"
    }
    #expect(try folder.files() == (backup == 0 ? ["backup.tar", "data"] : ["data"]))
    try await Command.run(["backup", "--data", data, file]).expect(status: 0)
    var statuses = [backup]
    for (command, temporary) in [
      (["restore", file, "--data", new], "new.restoring-"), (["verify", file], "canopy-verify-"),
      (["repair", "--data", data, "--to", new], "new.repairing-"),
    ] {
      let status = try await interrupt(command, by: number) { name, _ in name.hasPrefix(temporary) }
      statuses.append(status)
      try await expectComplete(new, isThere: status == 0 && command[0] != "verify")
      try? FileManager.default.removeItem(atPath: new)
      #expect(try folder.files() == ["backup.tar", "data"], "\(command)")
    }
    // A command may complete before the signal arrives.
    #expect(statuses.allSatisfy { [0, 128 + number].contains($0) }, "\(statuses)")
    #expect(statuses.contains(128 + number), "\(statuses)")
  }

  /// Checks that a folder is complete, or not there.
  private func expectComplete(
    _ path: String, isThere: Bool, _ namespaces: Int = 0
  ) async throws {
    let files = FileManager.default
    #expect(files.fileExists(atPath: path) == isThere)
    guard isThere else { return }
    try await Command.run(["verify", "--data", path]).expect(status: 0)
    let names = (try? files.contentsOfDirectory(atPath: path + "/namespaces")) ?? []
    #expect(names.count { $0.hasPrefix("n") } == namespaces, "\(names)")
  }

  @Test(arguments: [false, true])
  func `a restore that a signal interrupts at any namespace names no part of its folder`(
    isEmpty: Bool
  ) async throws {
    let files = FileManager.default
    let (file, new, count) = (folder.file("backup.tar"), folder.file("new"), 5)
    try await Command.run(["import", "--data", data], input: "{\"a\":1}").expect(status: 0)
    for number in 1...count {
      try await Command.run(["namespace", "create", "n\(number)", "--data", data]).expect(status: 0)
    }
    try await Command.run(["backup", "--data", data, file]).expect(status: 0)
    for number in 0...count {
      if isEmpty { try files.createDirectory(atPath: new, withIntermediateDirectories: false) }
      let (root, prefix) = isEmpty ? (new, ".restoring-") : (folder.path, "new.restoring-")
      let status = try await interrupt(["restore", file, "--data", new], by: SIGTERM) { _, _ in
        let names = (try? files.contentsOfDirectory(atPath: root)) ?? []
        guard let work = names.first(where: { $0.hasPrefix(prefix) }) else { return false }
        let made = try? files.contentsOfDirectory(atPath: "\(root)/\(work)/namespaces")
        return (made ?? []).count >= number
      }
      #expect([0, 128 + SIGTERM].contains(status))
      if isEmpty, status != 0 {
        #expect(try files.contentsOfDirectory(atPath: new) == [], "\(number)")
      } else {
        try await expectComplete(new, isThere: status == 0, count)
      }
      try? files.removeItem(atPath: new)
      #expect(try folder.files() == ["backup.tar", "data"], "\(number)")
    }
  }

  @Test func `a command that nohup has started goes on when its terminal is closed`() async throws {
    try await fill()
    let script = #"trap '' HUP; exec "$0" "$@""#
    let process = Process()
    process.executableURL = URL(filePath: "/bin/sh")
    process.arguments = [
      "-c", script, Command.path, "backup", "--data", data, folder.file("b.tar"),
    ]
    process.environment = Command.base
    process.standardError = FileHandle.nullDevice
    process.standardOutput = FileHandle.nullDevice
    let ending = ProcessEnding()
    process.terminationHandler = { ending.set($0) }
    try process.run()
    let temporary = ".b.tar.part-\(process.processIdentifier)"
    try await eventually { try ending.now != nil || folder.files().contains(temporary) }
    kill(process.processIdentifier, SIGHUP)
    #expect(try await ending.status() == 0)
    #expect(try folder.files() == ["b.tar", "data"])
  }

  @Test func `SIGHUP does not end a server without a certificate`() async throws {
    let server = try await ServerProcess(data: data)
    let client = try await server.connect()
    kill(server.pid, SIGHUP)
    try await eventually { server.log.contains("SIGHUP has nothing to read again") }
    try await client.expect("PING", "+\"PONG\"")
    #expect(try await server.terminate() == 0)
  }

  @Test func `a folder that a process uses without answering is said to be in use`() async throws {
    let server = try await ServerProcess(data: data)
    try FileManager.default.removeItem(atPath: data + "/canopy.sock")
    for arguments in [["rules", "get"], ["user", "list"], ["console"]] {
      let ending = try await Command.run(arguments + ["--data", data])
      ending.expectSentence()
      #expect(
        ending.errors.contains("in use by process \(server.pid), which does not answer"),
        "\(ending)")
    }
    try FileManager.default.moveItem(
      atPath: data + "/canopy.sqlite", toPath: folder.file("moved.sqlite"))
    let backup = try await Command.run(["backup", "--data", data, folder.file("b.tar")])
    backup.expectSentence()
    #expect(
      backup.errors.contains("canopy.sqlite is missing, although process \(server.pid)"),
      "\(backup)")
    try await server.destroy()
  }

  @Test func `commands on accounts of a stopped server wait for each other`() async throws {
    let endings = try await withThrowingTaskGroup(of: Command.Ending.self) { tasks in
      for number in 1...4 {
        tasks.addTask { [data] in
          try await Command.run(
            ["user", "add", "--data", data, "u\(number)@example.org", "user\(number)"],
            input: "engine of 1843\n")
        }
      }
      return try await tasks.reduce(into: []) { $0.append($1) }
    }
    for ending in endings { ending.expect(status: 0) }
    let list = try await Command.run(["user", "list", "--data", data])
    #expect(list.text.split(separator: "\n").count == 4, "\(list)")
  }
}
