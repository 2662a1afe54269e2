import CanopyAccounts
import CanopyEngine
import CanopySession
import CanopySocial
import CanopyTesting
import CanopyTree
import Foundation
import GRDB
import Testing

@testable import CanopySQLite

/// Data folders that the programs of earlier versions have written. `Scripts/old-folders` makes them.
@Suite(.timeLimit(.minutes(20))) struct OldFolderTests {
  private static let hour: Int64 = 3_600_000

  @Test(arguments: OldFolder.all, [false, true])
  func `a server answers from a folder of an earlier version as the program of that version did`(
    _ old: OldFolder, hasLog: Bool
  ) async throws {
    for database in old.databases {
      let folder = try TemporaryFolder()
      let restored = try old.restore(database, to: folder, hasLog: hasLog)
      let conversations = try old.conversations(database)
      // The logins of the folder are valid at this time.
      let clock = ManualClock(restored.time + Self.hour)
      for start in 1...2 as ClosedRange<UInt64> {
        try await ask(
          conversations, of: folder, isNamespace: !database.isEmpty, clock, start: start)
        try await verify(folder, isNamespace: !database.isEmpty)
      }
      for (name, data) in try old.otherFiles(database) where name != "canopy.tail" {
        #expect(FileManager.default.contents(atPath: folder.file(name)) == data, "\(name)")
      }
      let copy = folder.file(Opening.oldVersionName)
      if try old.migrations == Schema.migrator.migrations {
        #expect(!FileManager.default.fileExists(atPath: copy))
      } else {
        #expect(try OldFolder.contents(ofFile: copy) == restored.contents)
      }
    }
  }

  /// Starts a server, and compares its answers with those of the earlier program.
  private func ask(
    _ conversations: [OldFolder.Conversation], of folder: TemporaryFolder, isNamespace: Bool,
    _ clock: ManualClock, start: UInt64
  ) async throws {
    let server = try await DiskServer.start(
      folder.path, clock: clock, seed: start,
      // Clients of the earlier program can still resume.
      {
        $0.retainedCommits = 1_000
        $0.retainedMilliseconds = 2 * Self.hour
      }, rules: isNamespace ? .locked : .blog,
      hasher: PasswordHasher(), hashParameters: .standard)
    do {
      try await server.serve { port in
        for conversation in conversations {
          let client =
            try await conversation.isAdministrator
            ? port.connectAsAdministrator() : port.connect()
          for exchange in conversation.exchanges {
            // The logins of the first start have changed the times of the last logins.
            if start > 1 && exchange.request == "USERS" { continue }
            try await ask(exchange, client)
          }
          await client.disconnect()
        }
      }
    } catch {
      try? await server.stop()
      throw error
    }
    try await server.stop()
  }

  private func ask(_ exchange: OldFolder.Exchange, _ client: LineSocketClient) async throws {
    let isListening = exchange.request.hasPrefix("LISTEN ")
    // The on-disconnect writes of a connection are one commit now.
    let passing = ["token", "expires"] + (isListening ? ["seq"] : [])
    let answer = try await client.request(exchange.request)
    let new = try comparable(answer, without: passing)
    // The earliest programs did not ask for a secret name of a client without a login.
    let isRefusedNow = exchange.request.hasPrefix("ONCE porch ") && new == Self.refused
    try #require(
      try isRefusedNow || new == comparable(exchange.answer, without: passing),
      "\(exchange.request): \(answer), before \(exchange.answer)")
    for event in exchange.events {
      let line = try await client.readLine()
      #expect(
        try comparable(line, without: passing) == comparable(event, without: passing),
        "\(exchange.request): \(line), before \(event)")
    }
  }

  private static let refused = JSONValue.leaf(Node("-INVALID_DATA"))

  /// Returns the value of a line without some members, or the code of an error.
  private func comparable(_ line: String, without names: [String]) throws -> JSONValue {
    if line.hasPrefix("-") { return .leaf(Node(String(line.prefix { $0 != " " }))) }
    let value = try JSONValue(json: String(line.dropFirst()))
    guard case .object(let members) = value else { return value }
    return .object(members.filter { !names.contains($0.name) })
  }

  /// Does the work of `canopy verify`.
  private func verify(_ folder: TemporaryFolder, isNamespace: Bool) async throws {
    let store = try SQLiteStore.reading(folder.path)
    #expect(try await store.problems() == [])
    if !isNamespace { #expect(SocialCheck.problems(in: try await store.load().tree.root) == []) }
    try store.close()
  }

  @Test func `each version has a folder that its program has written`() throws {
    let names = Schema.migrator.migrations
    var last: Set<String> = []
    for old in OldFolder.all {
      let migrations = try old.migrations
      #expect(migrations == Array(names.prefix(migrations.count)), "\(old.testDescription)")
      last.insert(try #require(migrations.last))
    }
    // No commit of the main branch ends with the migration client-seen.
    #expect(last == Set(names).subtracting(["client-seen"]), "Scripts/old-folders makes the others")
  }
}
