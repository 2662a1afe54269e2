import CanopyAccounts
import CanopyBackup
import CanopyEngine
import CanopyRules
import CanopySession
import CanopySQLite
import CanopySocial
import CanopyTesting
import CanopyTree
import Foundation

@testable import struct canopy.FolderCheck
@testable import struct canopy.FolderProblem
@testable import struct canopy.NamespaceFolders

/// The checks of a folder after a loss of power or a stop: `canopy verify`, a start, and each write of the ledger.
struct AfterLoss {
  let ledger: Ledger
  var findings: Findings

  /// Checks a folder.
  ///
  /// - Parameter change: changes the tree or the accounts first, to plant a defect.
  mutating func check(
    _ folder: TemporaryFolder, clock: ManualClock,
    _ change: (DiskServer) async throws -> Void = { _ in }
  ) async throws {
    do {
      try await verify(folder)
      let server = try await DiskServer.start(folder.path, clock: clock, seed: 7)
      do {
        try await change(server)
        try await check(server)
        checkFiles(in: folder)
      } catch {
        findings.torn.append("reading after the start: \(error)")
      }
      try await server.stop()
    } catch StoreError.damaged where ledger.acknowledged == 0 {
      // The disk has failed during the first start. The server refuses the folder, which has no data.
    } catch {
      findings.lost.append("the server does not start: \(error)")
    }
  }

  private mutating func verify(_ folder: TemporaryFolder) async throws {
    guard try folder.files().contains("canopy.sqlite") else {
      // Nothing was acknowledged before the first file was durable.
      if ledger.acknowledged > 0 { findings.lost.append("the database file") }
      return
    }
    let problems: [FolderProblem]
    do {
      problems = try await FolderCheck(NamespaceFolders(folder.path)).run()
    } catch let error as StoreError {
      // A first start that was interrupted can leave a folder that only the next start can read.
      guard ledger.acknowledged == 0 else { throw error }
      return
    }
    // The others are no reason for the command to fail.
    findings.torn += problems.filter { $0.kind != .foreignRules }.map(\.text)
  }

  private mutating func check(_ server: DiskServer) async throws {
    let root = server.engine.root
    findings.torn += SocialCheck.problems(in: root)
    let posts = root.at(try Path("posts"))
    checkTexts("post", ledger.posts, posts.texts("title"))
    var comments: [String] = []
    for post in root.at(try Path("post-comments")).members {
      comments += post.node.texts("text")
    }
    checkTexts("comment", ledger.comments, comments)
    for (place, isStarred) in ledger.stars {
      guard let isStarred else { continue }
      let star = posts.at(try Path("\(place[1])/stars/\(place[0])"))
      if star.isAbsent == isStarred { findings.lost.append("the star of \(place[1])") }
    }
    let values = root.at(try Path("values"))
    checkTexts("value", ledger.values, values.members.map(\.name))
    try checkCounts(root)
    try await checkAccounts(server)
  }

  /// Checks the rules in force and the backups.
  private mutating func checkFiles(in folder: TemporaryFolder) {
    let file = FileManager.default.contents(atPath: folder.file(RulesKeeper.fileName))
    let rules =
      file.map { String(decoding: RulesFile(Array($0)).body, as: UTF8.self) } ?? BuiltInRules.text
    if !ledger.rules.isEmpty, !ledger.rules.contains(rules) {
      findings.lost.append("the rules: \(rules.prefix(80))")
    }
    let place = folder.file("backups")
    let names = (try? FileManager.default.contentsOfDirectory(atPath: place)) ?? []
    for name in names where name.hasSuffix(".tar") {
      do { try BackupFile("\(place)/\(name)").unpack(to: nil) } catch {
        findings.torn.append("the backup \(name): \(error)")
      }
    }
    for name in ledger.backups where !names.contains(name) {
      findings.lost.append("the backup \(name)")
    }
  }

  /// Checks writes that have a text of their own.
  private mutating func checkTexts(
    _ name: String, _ written: [String: Ledger.Outcome], _ found: [String]
  ) {
    let counts = found.reduce(into: [:]) { $0[$1, default: 0] += 1 }
    for (text, outcome) in written {
      let count = counts[text, default: 0]
      if count == 0, outcome == .made { findings.lost.append("\(name) \(text)") }
      if count > 1 { findings.doubled.append("\(name) \(text) exists \(count) times") }
      if count > 0, outcome == .notMade {
        findings.doubled.append("\(name) \(text) exists, and the reply denied it")
      }
    }
  }

  private mutating func checkCounts(_ root: Node) throws {
    let count = Int(root.at(try Path("count")).integerValue ?? 0)
    if count < ledger.increments {
      findings.lost.append("\(ledger.increments - count) increments")
    }
    let most = ledger.increments + (ledger.hasUnknownIncrement ? 1 : 0)
    if count > most { findings.doubled.append("\(count - most) increments") }
    let gone = root.at(try Path("gone"))
    for (name, outcome) in ledger.disconnects {
      let count = gone.child(try Key(name)).integerValue ?? 0
      if count == 0, outcome == .made { findings.lost.append("on-disconnect write \(name)") }
      if count > 1 {
        findings.doubled.append("on-disconnect write \(name) was made \(count) times")
      }
    }
  }

  private mutating func checkAccounts(_ server: DiskServer) async throws {
    for account in ledger.accounts {
      let key = try Key(account.uid)
      if Users.username(of: key, in: server.engine.root) == nil {
        findings.torn.append("the profile of \(account.email)")
      }
      var isKnown = false
      for password in account.passwords {
        do {
          _ = try await server.accounts.logIn(
            email: account.email, password: password, from: .local)
          isKnown = true
        } catch AccountError.credentialsRefused {}
      }
      if !isKnown { findings.lost.append("the account \(account.email)") }
      guard account.passwords.count == 1 else { continue }
      do { _ = try await server.accounts.authenticate(account.token) } catch is AccountError {
        findings.lost.append("the session of \(account.email)")
      }
    }
    for account in try await server.accounts.accounts(limit: 100)
    where Users.username(of: try Key(account.uid), in: server.engine.root) == nil {
      findings.torn.append("the account \(account.email) has no profile")
    }
  }
}

extension Node {
  /// The children with their keys.
  fileprivate var members: [(name: String, node: Node)] {
    children(after: nil, limit: .max).map { ("\($0.key)", $0.node) }
  }

  /// Returns the text that each child has at a key.
  fileprivate func texts(_ name: String) -> [String] {
    guard let key = try? Key(name) else { return [] }
    return members.compactMap { $0.node.child(key).stringValue }
  }
}
