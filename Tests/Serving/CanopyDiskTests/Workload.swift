import CanopyBackup
import CanopyEngine
import CanopyRules
import CanopyTesting
import CanopyTree
import Foundation

/// The requests of clients to a server whose disk fails: each is sent again until it is carried out.
struct Workload {
  /// The power has failed, or the server did not go on.
  struct End: Error {}

  /// The tries of a request after which the server counts as stuck. The engine refuses writes until the journal has said
  /// whether it has stored those of a failed append, which takes a moment.
  private static let triesMax = 1_000

  let server: DiskServer
  let port: DiskServer.Port
  let disk: Disk
  let place: String
  /// Whether the run ends with the first refusal, and the disk stays as it is.
  let endsAtRefusal: Bool
  /// Whether the rules are replaced too, and each round makes a backup.
  let keepsFiles: Bool
  var ledger: Ledger
  var findings = Findings()
  /// The number of the last try.
  private(set) var number: Int
  private var lastPost: (id: String, title: String)?

  init(
    _ server: DiskServer, _ port: DiskServer.Port, _ disk: Disk, backups place: String,
    endsAtRefusal: Bool = false, keepsFiles: Bool = false, ledger: Ledger = Ledger(),
    number: Int = 0
  ) {
    self.keepsFiles = keepsFiles
    self.endsAtRefusal = endsAtRefusal
    self.ledger = ledger
    self.number = number
    self.server = server
    self.port = port
    self.disk = disk
    self.place = place
  }

  /// Runs all requests. Ends early when the power fails.
  mutating func run(rounds: Int = 4) async throws {
    do {
      let administrator = try await port.connectAsAdministrator()
      let (ada, bob) = (try await port.connect(), try await port.connect())
      try await signUp("ada", ada)
      try await signUp("bob", bob)
      for round in 1...rounds {
        try await post(ada, round)
        try await star(bob)
        try await comment(bob, round)
        try await set(administrator)
        try await increment(administrator)
        try await leave(round)
        if round == 2 { try await changePassword(bob) }
        if round == 3 || keepsFiles { try await backUp() }
        if keepsFiles {
          try await publish(
            administrator, "{\"rules\":{\".read\":\"auth != null || \(round) > 9\"}}")
          try await publish(administrator, nil)
        }
      }
      try await increment(administrator)
    } catch is End {}
  }

  // MARK: Requests

  private enum Reply {
    case success(JSONValue)
    case refusal(Ledger.Outcome)
  }

  /// Sends a request once.
  ///
  /// - Parameter code: the beginning of another reply than UNAVAILABLE that counts as a refusal.
  /// - Throws: `End`.
  private mutating func request(
    _ client: LineSocketClient, _ line: String, accepting code: String? = nil
  ) async throws -> Reply {
    let reply: String
    do { reply = try await client.request(line) } catch is LineClientError {
      findings.stuck.append("the connection broke at \(line.prefix(40))")
      throw End()
    }
    if reply.hasPrefix("+") {
      ledger.acknowledged += 1
      return .success(try JSONValue(json: String(reply.dropFirst())))
    }
    if let code, reply.hasPrefix(code) { return .refusal(.notMade) }
    guard reply.hasPrefix("-UNAVAILABLE ") else {
      findings.stuck.append("\(line.prefix(40)) was answered by \(reply)")
      throw End()
    }
    if !endsAtRefusal { disk.heal() }
    return .refusal(
      reply.hasSuffix(EngineError.journalFailed.sentence) ? .notMade : .unknown)
  }

  /// Repeats a step until it returns true.
  ///
  /// - Throws: `End` when the power has failed, or after too many tries.
  private mutating func untilMade(
    _ name: String, _ step: (inout Workload, Int) async throws -> Bool
  ) async throws {
    for _ in 0..<Self.triesMax {
      number += 1
      if try await step(&self, number) { return }
      if disk.hasEnded || endsAtRefusal { throw End() }
      await Task.yield()
    }
    let lines = server.log.lines.filter { $0.hasPrefix("error") || $0.hasPrefix("warning") }
    findings.stuck.append("\(name) is refused again and again: \(lines.suffix(12))")
    throw End()
  }

  private mutating func signUp(_ name: String, _ client: LineSocketClient) async throws {
    try await untilMade("SIGNUP") { load, number in
      let (email, password) = ("\(name)\(number)@example.org", "secret words of \(name)")
      let line = "SIGNUP \(email) \"\(password)\" \(name)\(number)"
      guard case .success(let reply) = try await load.request(client, line) else { return false }
      load.ledger.accounts.append(
        Ledger.Account(
          email: email, uid: reply["uid"]?.string ?? "", token: reply["token"]?.string ?? "",
          passwords: [password]))
      return true
    }
  }

  /// Changes the password. If the outcome is unknown, the session may have ended, so the user logs in again.
  private mutating func changePassword(_ client: LineSocketClient) async throws {
    try await untilMade("PASSWORD") { load, number in
      let last = load.ledger.accounts.count - 1
      guard load.ledger.accounts[last].passwords.count == 1 else {
        return try await load.logIn(client, last)
      }
      let (old, new) = (load.ledger.accounts[last].passwords[0], "new words number \(number)")
      load.ledger.accounts[last].passwords.append(new)
      let line = "PASSWORD \"\(old)\" \"\(new)\""
      guard case .success(let reply) = try await load.request(client, line) else { return false }
      load.ledger.accounts[last].passwords = [new]
      load.ledger.accounts[last].token = reply["token"]?.string ?? ""
      return true
    }
  }

  /// Logs in with the password that is in force. Returns whether that is known now.
  private mutating func logIn(_ client: LineSocketClient, _ index: Int) async throws -> Bool {
    for password in ledger.accounts[index].passwords {
      let line = "LOGIN \(ledger.accounts[index].email) \"\(password)\""
      switch try await request(client, line, accepting: "-UNAUTHENTICATED") {
      case .success(let reply):
        ledger.accounts[index].passwords = [password]
        ledger.accounts[index].token = reply["token"]?.string ?? ""
        return true
      case .refusal(.notMade): continue
      case .refusal: return false
      }
    }
    findings.lost.append("the password of \(ledger.accounts[index].email)")
    return true
  }

  private mutating func post(_ client: LineSocketClient, _ round: Int) async throws {
    try await untilMade("POST") { load, number in
      let title = "Post \(number)"
      let body = String(repeating: "words of post \(number) ", count: 40 * round)
      switch try await load.request(client, "POST \"\(title)\" \"\(body)\"") {
      case .success(let reply):
        load.lastPost = (reply["id"]?.string ?? "", title)
        load.ledger.posts[title] = .made
        return true
      case .refusal(let outcome):
        load.ledger.posts[title] = outcome
        return false
      }
    }
  }

  private mutating func star(_ client: LineSocketClient) async throws {
    try await untilMade("STAR") { load, _ in
      guard let post = load.lastPost?.id, let user = load.ledger.accounts.last?.uid else {
        return true
      }
      switch try await load.request(client, "STAR \(post)") {
      case .success(let reply):
        load.ledger.stars[[user, post]] = reply["starred"] == .leaf(true)
        return true
      case .refusal(let outcome):
        if outcome == .unknown { load.ledger.stars[[user, post]] = .some(nil) }
        return false
      }
    }
  }

  private mutating func comment(_ client: LineSocketClient, _ round: Int) async throws {
    try await untilMade("COMMENT") { load, number in
      guard let post = load.lastPost?.id else { return true }
      let text = "Comment \(number)"
      switch try await load.request(client, "COMMENT \(post) \"\(text)\"") {
      case .success:
        load.ledger.comments[text] = .made
        return true
      case .refusal(let outcome):
        load.ledger.comments[text] = outcome
        return false
      }
    }
  }

  private mutating func set(_ client: LineSocketClient) async throws {
    try await untilMade("SET") { load, number in
      let name = "v\(number)"
      switch try await load.request(client, "SET /values/\(name) \(number)") {
      case .success:
        load.ledger.values[name] = .made
        return true
      case .refusal(let outcome):
        load.ledger.values[name] = outcome
        return false
      }
    }
  }

  /// Sends an increment that is made once, however often it is sent.
  private mutating func increment(_ client: LineSocketClient) async throws {
    let write = ledger.increments + 1
    try await untilMade("ONCE") { load, _ in
      load.ledger.hasUnknownIncrement = true
      let line = "ONCE k \(write) \(write - 1) SET /count {\".sv\":{\"increment\":1}}"
      guard case .success = try await load.request(client, line) else { return false }
      load.ledger.hasUnknownIncrement = false
      load.ledger.increments += 1
      return true
    }
  }

  /// Arms an on-disconnect write on a connection of its own, and closes the connection.
  private mutating func leave(_ round: Int) async throws {
    let client = try await port.connectAsAdministrator()
    try await untilMade("ONDISCONNECT") { load, number in
      let name = "d\(number)"
      let line = "ONDISCONNECT SET /gone/\(name) {\".sv\":{\"increment\":1}}"
      guard case .success = try await load.request(client, line) else {
        load.ledger.disconnects[name] = .unknown
        return false
      }
      load.ledger.disconnects[name] = .made
      return true
    }
    await client.disconnect()
  }

  /// Replaces the rules; nil stands for the built-in ones.
  private mutating func publish(_ client: LineSocketClient, _ text: String?) async throws {
    let before = try await client.value("RULES")["text"]?.string ?? ""
    try await untilMade("RULES") { load, _ in
      if load.ledger.rules.isEmpty { load.ledger.rules = [before] }
      let new = text ?? BuiltInRules.text
      load.ledger.rules.append(new)
      let line = "RULES " + (text.map { "\"\($0.replacing("\"", with: "\\\""))\"" } ?? "built-in")
      guard case .success = try await load.request(client, line) else {
        let now = try await client.value("RULES")["text"]?.string
        if now != before { load.findings.torn.append("rules that were refused are in force") }
        return false
      }
      load.ledger.rules = [new]
      return true
    }
  }

  private mutating func backUp() async throws {
    try await untilMade("BACKUP") { load, number in
      let last = load.server.engine.snapshot.sequence
      do {
        let sequence = try load.server.backUp(to: load.place, number: number)
        if sequence < last { load.findings.lost.append("commits of a backup") }
        load.ledger.backups.append("\(number).tar")
        return true
      } catch {
        // A disk on which all calls fail does not let the file be removed. If only its name is not synchronized, it stays.
        var isComplete = false
        if case BackupError.unsynchronized = error { isComplete = true }
        if !load.disk.hasEnded, load.disk.faults == 1,
          (access("\(load.place)/\(number).tar", F_OK) == 0) != isComplete
        {
          load.findings.torn.append("a backup that has failed exists, or is missing: \(error)")
        }
        if !load.endsAtRefusal { load.disk.heal() }
        return false
      }
    }
  }
}
