import CanopyTesting
import CanopyTree
import Foundation
import Testing

/// `canopy restore` to an earlier point: the times that it takes, and the accounts that stay.
@Suite(.timeLimit(.minutes(20)), .serialized) struct RestorePointTests {
  private let folder: TemporaryFolder
  private var data: String { folder.file("data") }
  private var file: String { folder.file("backup.tar") }
  private var new: String { folder.file("new") }

  init() throws {
    folder = try TemporaryFolder()
  }

  @Test func `an account that was opened before the point stays, also without a profile there`()
    async throws
  {
    let first = try await ServerProcess(data: data)
    try await first.connect().value("SIGNUP ada@example.org \"engine of 1843\" ada")
    #expect(try await first.terminate() == 0)
    // It replaces the whole tree, and so removes the profile.
    try await Command.run(["import", "--data", data], input: "{\"a\":1}").expect(status: 0)
    let second = try await ServerProcess(data: data)
    let admin = try await second.connect()
    try await admin.value(try ServerProcess.authentication(data: data))
    let good = try #require(try await admin.value("SET /a 2")["seq"]?.integer)
    try await second.connect().value("SIGNUP eve@example.org \"engine of 1843\" eve")
    try await admin.value("SET /a 3")
    #expect(try await second.terminate() == 0)
    try await Command.run(["backup", "--data", data, file]).expect(status: 0)

    try await Command.run(["restore", file, "--data", new, "--up-to-sequence", "\(good)"])
      .expect(status: 0)
    let users = try await Command.run(["user", "list", "--data", new])
    #expect(users.text.contains("ada@example.org"), "\(users)")
    #expect(!users.text.contains("eve@example.org"), "\(users)")
    let restored = try await ServerProcess(data: new)
    try await restored.connect().value("LOGIN ada@example.org \"engine of 1843\"")
    #expect(try await restored.terminate() == 0)
  }

  @Test func `a time before an import does not reach its tree`() async throws {
    for value in ["old", "new"] {
      try await Command.run(["import", "--data", data], input: "\"\(value)\"").expect(status: 0)
    }
    try await Command.run(["backup", "--data", data, file]).expect(status: 0)
    let early = try await Command.run(
      ["restore", file, "--data", new, "--up-to-time", "2001-01-01T00:00:00Z"])
    early.expectSentence()
    #expect(early.errors.contains("the tree with which the backup begins is of"), "\(early)")
    #expect(try folder.files() == ["backup.tar", "data"])
  }

  @Test(arguments: [
    ("2026-02-30T00:00:00Z", false), ("2026-04-31T12:00:00.5Z", false),
    ("2023-02-29T00:00:00Z", false), ("2026-01-31T24:00:00Z", false),
    ("2024-02-29T23:59:59Z", true), ("2026-12-31T00:00:00.125Z", true), ("1767225600000", true),
  ])
  func `a date that does not exist is refused`(time: String, exists: Bool) async throws {
    let ending = try await Command.run(["restore", file, "--data", new, "--up-to-time", time])
    if exists {
      // It then finds that the file does not exist.
      ending.expectSentence()
      #expect(ending.status == 1, "\(ending)")
    } else {
      #expect(ending.status == 64 && ending.errors.contains("does not exist"), "\(ending)")
    }
  }

  @Test(arguments: ["0", "+5", "1767225600"])
  func `a time in seconds is refused`(time: String) async throws {
    let ending = try await Command.run(["restore", file, "--data", new, "--up-to-time", time])
    #expect(ending.status == 64 && ending.errors.contains("in milliseconds"), "\(ending)")
  }

  @Test
  func `a time before the first commit is refused, and an account without a profile explained`()
    async throws
  {
    let server = try await ServerProcess(data: data)
    try await server.connect().value("SIGNUP ada@example.org \"engine of 1843\" ada")
    #expect(try await server.terminate() == 0)
    try await Command.run(["backup", "--data", data, file]).expect(status: 0)
    let early = try await Command.run(
      ["restore", file, "--data", new, "--up-to-time", "2001-01-01T00:00:00Z"])
    early.expectSentence()
    #expect(early.errors.contains("the first commit is of"), "\(early)")
    #expect(try folder.files() == ["backup.tar", "data"])
    let empty = try await Command.run(["restore", file, "--data", new, "--up-to-sequence", "0"])
    empty.expect(status: 0)
    #expect(
      !empty.errors.contains("has no profile")
        || empty.errors.contains("which the backup has or the chosen point causes"), "\(empty)")
  }
}
