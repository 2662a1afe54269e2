import CanopyTree
import CanopyWire
import Testing

/// The options of the administrator's verbs.
@Suite(.timeLimit(.minutes(20))) struct AdministrationVerbTests {
  @Test(arguments: [
    ("KEYS /a", 1_000), ("USERS", 100), ("SESSIONS @ada", 100), ("LOG", 1_000),
    ("CLIENTS", 1_000), ("CLIENT 3", 1_000), ("EXPORT", 1_000),
  ])
  func `a limit is from 1 to the bound of the verb`(_ verb: String, _ max: Int) {
    for limit in [1, max] {
      #expect(throws: Never.self) { try outcome("\(verb) {\"limit\":\(limit)}").get() }
    }
    for limit in ["0", "\(max + 1)", "-1", "1.5", "\"1\""] {
      #expect(refusal("\(verb) {\"limit\":\(limit)}")?.code == .badRequest, "\(limit)")
    }
  }

  @Test func `options of a wrong type are refused`() {
    for line in [
      "KEYS /a {\"after\":1}", "KEYS /a {\"after\":\"\"}", "KEYS /a {\"after\":\"b/c\"}",
      "USERS {\"after\":1}", "USERS {\"find\":\"\"}", "USERS {\"find\":\"a\",\"after\":\"b\"}",
      "LOG {\"after\":-1}", "LOG {\"level\":\"loud\"}", "LOG {\"level\":1}",
      "LOGLEVEL loud", "LOGLEVEL \"\"", "EXPORT {\"after\":1}", "DELETEUSER @ada {\"posts\":1}",
      "DELETEUSER @ada {\"post\":true}", "DELETEUSER @ada yes",
      "DELETEACCOUNT {\"posts\":\"true\"}",
      "CLIENTS {\"after\":\"1\"}", "CLIENT x", "ENDCLIENT 1.5", "CLIENT 9223372036854775808",
    ] {
      #expect(refusal(line)?.code == .badRequest, "\(line)")
    }
    #expect(refusal("KEYS /a.b")?.code == .invalidPath)
  }

  @Test func `an account is named by its user name, its address or its uid`() throws {
    let names: [(String, AccountReference)] = [
      ("@ada", .username("ada")), ("ada@example.org", .address("ada@example.org")),
      ("ada", .uid("ada")), ("me", .uid("me")), ("\"@a b\"", .username("a b")),
    ]
    for (text, expected) in names {
      guard case .administration(.user(let reference)) = try outcome("USER \(text)").get() else {
        Issue.record("USER \(text) is another request")
        continue
      }
      #expect(reference == expected)
    }
  }

  @Test func `the levels of the log are in the order of their importance`() {
    let levels = LogPage.Level.allCases
    #expect(levels == levels.sorted())
    #expect(
      levels.map(\.rawValue) == [
        "trace", "debug", "info", "notice", "warning", "error", "critical",
      ])
  }
}
