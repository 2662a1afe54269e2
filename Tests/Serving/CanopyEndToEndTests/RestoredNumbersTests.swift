import CanopyTesting
import CanopyTree
import Foundation
import Testing

/// Clients that resume with the number of a commit that the data no longer have.
@Suite(.timeLimit(.minutes(20)), .serialized) struct RestoredNumbersTests {
  private let folder: TemporaryFolder
  private var data: String { folder.file("data") }
  private var backup: String { folder.file("backup.tar") }

  init() throws {
    folder = try TemporaryFolder()
  }

  private func run(_ arguments: String...) async throws {
    let ending = try await Command.run(arguments)
    #expect(ending.status == 0, "\(arguments): \(ending)")
  }

  /// Makes commits with a server of its own. Then resumes after the commit `known`, and expects the whole state.
  ///
  /// - Returns: the number of the last commit.
  @discardableResult
  private func commit(
    _ name: String, _ count: Int, to data: String, in namespace: String = "default",
    resumingAfter known: Int64? = nil
  ) async throws -> Int64 {
    let server = try await ServerProcess(data: data)
    let client = try await server.connect()
    try await client.value(try ServerProcess.authentication(data: data))
    try await client.value("USE \(namespace)")
    var last: Int64 = 0
    for number in 1...count {
      let reply = try await client.value("SET /stock/\(name)\(number) \(number)")
      last = try #require(reply["seq"]?.integer)
    }
    if let known {
      let state = try await client.request("GET /stock").dropFirst()
      let reply = try await client.value("LISTEN /stock {\"since\":\(known)}")
      let lines = try await client.readLines(Int(try #require(reply["initial"]?.integer)))
      #expect(lines.count == 1)
      #expect(
        lines.first?.contains("\"event\":\"put\",\"path\":\"/\",\"data\":\(state)") == true,
        "\(lines)")
    }
    #expect(try await server.terminate() == 0)
    return last
  }

  @Test(arguments: [[[], []], [["--up-to-sequence", "3"], ["--up-to-sequence", "4"]]])
  func `two restores of one backup have different numbers`(points: [[String]]) async throws {
    try await commit("a", 5, to: data)
    try await run("backup", "--data", data, backup)
    let (first, second) = (folder.file("first"), folder.file("second"))
    for (point, new) in zip(points, [first, second]) {
      let ending = try await Command.run(["restore", backup, "--data", new] + point)
      #expect(ending.status == 0, "\(ending)")
    }
    let known = try await commit("first", 3, to: first)
    try await commit("second", 5, to: second, resumingAfter: known)
  }

  @Test func `a namespace in place of a removed one has other numbers`() async throws {
    try await Command.run(["import", "--data", data], input: "{\"main\":1}")
    try await run("namespace", "create", "shop", "--data", data)
    let known = try await commit("old", 5, to: data, in: "shop")
    try await run("namespace", "remove", "shop", "--data", data, "--yes")
    try await run("namespace", "create", "shop", "--data", data)
    try await commit("new", 7, to: data, in: "shop", resumingAfter: known)
  }

  @Test func `a copy of a folder that is put back without canopy.tail has other numbers`()
    async throws
  {
    try await commit("a", 5, to: data)
    let copy = folder.file("copy")
    try FileManager.default.copyItem(atPath: data, toPath: copy)
    let known = try await commit("lost", 3, to: data)
    try await run("verify", "--data", copy)
    try FileManager.default.removeItem(atPath: copy + "/canopy.tail")
    try await commit("new", 5, to: copy, resumingAfter: known)
  }

  @Test func `a backup that another program unpacks has other numbers`() async throws {
    try await commit("a", 5, to: data)
    try await run("backup", "--data", data, backup)
    let known = try await commit("lost", 3, to: data)
    let new = folder.file("new")
    try FileManager.default.createDirectory(atPath: new, withIntermediateDirectories: false)
    let ending = try await Command.run(["-xf", backup, "-C", new], program: "/bin/tar")
    #expect(ending.status == 0, "\(ending)")
    // Another command that opens the folder first does not change that.
    try await Command.run(["import", "--data", new, "/other"], input: "1")
    try await commit("new", 5, to: new, resumingAfter: known)
  }
}
