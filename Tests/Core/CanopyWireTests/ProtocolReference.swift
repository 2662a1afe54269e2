import CanopyTree
import CanopyWire

/// Writes the article "Protocol reference" from the command table.
///
/// The verbs, their arguments, summaries and replies come from `Command.all`, the names of options from the
/// parser, the events from their encoder, and the codes from `WireError.Code`. Only the meanings of options
/// and codes are written here.
enum ProtocolReference {
  /// The article, by its path from the root of the repository.
  static let path = "Sources/Documentation.docc/ProtocolReference.md"

  /// The command that writes the article.
  static let renewal = "CANOPY_RENEW=1 Scripts/test --filter ProtocolReferenceTests"

  /// The values and the meaning of each option.
  static let options: [String: String] = [
    "after": "as the reply before has it | Continues after the last entry of the page before.",
    "atLeast":
      "the number of a commit | Waits up to 5 s until the server has that commit: it may be of another node.",
    "before": "the id of an entry | Only entries after this one in the order of the list.",
    "endAt": "value or `[value,key]` | Children up to this bound, which belongs to the answer.",
    "endBefore": "value or `[value,key]` | Children before this bound.",
    "equalTo": "value or `[value,key]` | Children with this value. Excludes the other bounds.",
    "etag": "`true` or `false` | Adds the ETag of the value. Not with a query.",
    "events": "`child`, `value` or `sync` | The form of the events. The default is `child`.",
    "export": "`true` or `false` | Writes priorities too, and never an array.",
    "find":
      "a text | Only accounts whose user name or e-mail address begins with it. Excludes `after`.",
    "level": "`trace` to `critical` | Only lines of at least this level.",
    "limit":
      "1 to 100; for `KEYS`, `LOG`, `CLIENTS`, `CLIENT` and `EXPORT` to 1,000 | The number of entries. The default is "
      + "20; for `EXPORT` and the administrator's verbs 100, for `USERS` 50.",
    "limitToFirst": "1 or more | The first children of the order. Excludes `limitToLast`.",
    "limitToLast": "1 or more | The last children of the order. Excludes `limitToFirst`.",
    "orderBy":
      "`$key`, `$value`, `$priority` or a child path | The order. The default is `$priority`.",
    "posts":
      "`true` or `false` | Also removes everything that the user has added to the blog, in steps. The default is `false`.",
    "shallow": "`true` or `false` | Writes `true` in place of each branch. No other option.",
    "since": "a `seq` of an event | Resumes: sends only changes since this commit.",
    "startAfter": "value or `[value,key]` | Children after this bound.",
    "startAt": "value or `[value,key]` | Children from this bound on, which belongs to the answer.",
  ]

  /// The meaning of an error code for the client.
  static func meaning(of code: WireError.Code) -> String {
    switch code {
    case .badRequest:
      "The line does not have the form that its verb needs. The sentence has the usage, or says which part is wrong."
    case .unknownVerb: "There is no such verb."
    case .unauthenticated: "The request needs a login, the login failed, or the session has ended."
    case .permissionDenied:
      "The caller may not do this, or the account is disabled. If the rules deny a request, the sentence gives no reason."
    case .notFound: "The post, comment, user, subscription or path below `/.info` does not exist."
    case .conflict:
      "The user name or e-mail address is taken; a ONCE write has a number that the client has reported as seen; or a CAS meets a value that changes too quickly."
    case .invalidPath: "The path or a key in it is invalid."
    case .invalidData:
      "The JSON, a text of the blog, an e-mail address, a password, a page limit, the client or number of a ONCE write, or a text of rules is invalid."
    case .invalidQuery:
      "The parts of the query do not fit together, or the rules declare no index for it."
    case .tooLarge:
      "A line, value, commit, reply, event or explanation is too large, or there are too many locations in an UPDATE, subscriptions, queries at one location, on-disconnect writes, or ONCE writes that the client has not reported as seen."
    case .quotaExceeded:
      "The posts and comments of the user would have more bytes than a user may store."
    case .rateLimited:
      "Too many attempts of SIGNUP, LOGIN, PASSWORD, RENAME or another verb about credentials, or too many writes. "
        + "The time to wait stands before the sentence, as in `[1250 ms]`."
    case .overloaded:
      "Too many writes, password hashes, connections or unread bytes wait. Try again later."
    case .unavailable:
      "The server cannot do this now. The sentence for a write says whether the write was not made or may have been."
    case .internalError: "The server made a mistake. Its log has the details."
    }
  }

  /// The codes with which a reason comes, and its meaning for the client.
  static func meaning(of reason: WireError.Reason) -> String {
    switch reason {
    case .invalidEmail: "`INVALID_DATA` | The text is not an e-mail address."
    case .missingEmail: "`INVALID_DATA` | The account has no e-mail address. Set one first."
    case .invalidPassword: "`INVALID_DATA` | The new password is too short, too long or too common."
    case .wrongCredentials: "`UNAUTHENTICATED` | The e-mail address or the password is wrong."
    case .sessionEnded: "`UNAUTHENTICATED` | The token is invalid, or its session has ended."
    case .invalidCustomToken:
      "`UNAUTHENTICATED` | The custom token is invalid or has expired, or the logins of its user have ended since it "
        + "was made."
    case .invalidCode: "`UNAUTHENTICATED` | The code is invalid, or has been used."
    case .expiredCode: "`UNAUTHENTICATED` | The code has expired."
    case .taken: "`CONFLICT` | The e-mail address or the user name is taken."
    case .otherAccount: "`CONFLICT` | The e-mail address is not that of your account."
    case .noAccount: "`NOT_FOUND`, `UNAUTHENTICATED` | The account does not exist."
    case .accountDisabled: "`PERMISSION_DENIED`, `UNAUTHENTICATED` | The account is disabled."
    case .loginTooOld:
      "`PERMISSION_DENIED` | The last login is too long ago for this. `CONFIRM` the password."
    case .notOffered: "`NOT_FOUND` | The server has no identity tokens."
    }
  }

  /// The heading and the introduction of a group of verbs.
  private static func introduction(of group: Command.Group) -> String {
    switch group {
    case .session:
      "## Session\n\nA request about the connection and its account. Most need no login.\n"
    case .blog:
      """
      ## Blog

      Writing needs a login. Reading needs none, unless the request is about `me`. `user` is a uid, `@username` or
      `me`. The server itself checks who may do what. The security rules are not evaluated: rules of your own do not
      restrict these verbs. "Newest first" is the descending order of the ids, which ascend with the time at which
      they were made.

      """
    case .tree:
      """
      ## Tree

      The security rules decide about every request to the tree, except for the administrator. `path` is
      keys with `/` between them.

      """
    case .administration:
      """
      ## Administration

      These verbs are for the administrator. `user` is a uid, `@username` or an e-mail address. Times are milliseconds
      since 1970.

      """
    }
  }

  /// Returns the option names that a verb accepts, as its parser says; none if it takes no options.
  static func optionNames(of sample: Sample) -> [String] {
    let unknown = #"{"noSuchOption":1}"#
    let lines = [sample.required, sample.fewest ?? sample.required].map {
      ([sample.verb] + $0 + [unknown]).joined(separator: " ")
    }
    for line in lines {
      guard case .failure(let error) = outcome(line),
        let names = error.sentence.firstMatch(of: /has no option noSuchOption; it has (.+)/)
      else { continue }
      return names.1.split(separator: ", ").map(String.init)
    }
    return []
  }

  /// The text of the article.
  static var text: String {
    var text = """
      # Protocol reference

      Every verb, option, event and error code of the line protocol, version 1.

      ## Overview

      A test of the repository generates this page from the command table: `SessionVerbs.swift`,
      `AccountVerbs.swift`, `BlogVerbs.swift`, `TreeVerbs.swift` and `AdministrationVerbs.swift` in
      `Sources/Core/CanopyWire`. Do not edit it: change the table, then run

      ```sh
      \(renewal)
      ```

      <doc:LineProtocol> explains the protocol with examples.

      ### Lines of the client

      A line is `VERB argument …` in UTF-8 and ends in LF or CRLF. The verb may be in any case. An argument that
      begins with `{`, `[` or `"` is a JSON value and may contain spaces. Any other argument ends at the next space.
      In a usage, `[name]` is optional and `A|B` is a choice.

      ### Lines of the server

      | First character | Rest | Meaning |
      |---|---|---|
      | `+` | JSON | The request succeeded. |
      | `-` | `CODE sentence`, or `CODE [REASON] sentence` | The request failed. |
      | `>` | JSON object | An event of a subscription. |

      Replies come in the order of the requests. Events may come between replies.


      """
    for group in Command.Group.allCases {
      text += introduction(of: group) + "\n"
      text += "| Usage | Summary | Reply |\n|---|---|---|\n"
      for command in Command.all where command.group == group {
        let reply = cell(command.reply)
        text += "| `\(cell(command.usage))` | \(cell(command.summary)) | \(reply) |\n"
      }
      text += "\n"
    }
    return text + optionText + eventText + codeText
  }

  private static var optionText: String {
    var verbs: [String: [String]] = [:]
    for sample in Sample.all {
      for name in optionNames(of: sample) { verbs[name, default: []].append(sample.verb) }
    }
    var text = """
      ## Options

      Options are the members of one JSON object, the last argument. An option that a verb does not have is an error.
      `WATCH SHOW` takes only `since`.

      | Option | Value | Meaning | Verbs |
      |---|---|---|---|

      """
    for name in verbs.keys.sorted() {
      text +=
        "| `\(name)` | \(options[name] ?? " | ") | \(verbs[name, default: []].joined(separator: ", ")) |\n"
    }
    return text + "\n"
  }

  private static var eventText: String {
    """
    ## Events

    `sub` is the number of the subscription, `seq` the number of the commit. `prev` is the key before the child in
    the order of the query, or `null`. `"more":true` means that more events of the same commit follow for this
    subscription.

    | Form | Event |
    |---|---|
    \(eventLines.map { "| \($0.form) | `\($0.line)` |" }.joined(separator: "\n"))

    In the form `sync` the data of `put` and `patch` have priorities, as with the option `export`. Their paths are relative
    to the path of the subscription. A resumed subscription in the form `child` may get a `put` with the whole state; its
    data have no priorities, as those of all events in this form. After `cancel` no more events come for the subscription.


    """
  }

  /// One example of each event, as its encoder writes it.
  private static var eventLines: [(form: String, line: String)] {
    let node = Node(children: [("title", "Rain gauge")])
    let key: Key = "-P6wLu5nheZxxGnjIeUW"
    var lines: [(String, String)] = []
    func add(_ form: String, _ write: (inout JSONOutput) -> Void) {
      var output = JSONOutput()
      EventLine.begin(3, to: &output)
      write(&output)
      lines.append((form, String(output.text.dropLast())))
    }
    for kind in [ChildChange.Kind.added, .changed, .moved, .removed] {
      add("child") {
        let change = ChildChange(kind: kind, key: key, node: node, previous: nil)
        EventLine.child(change, 42, isMore: false, to: &$0)
      }
    }
    add("value") { EventLine.value(42, to: &$0) { $0.append(node) } }
    add("sync") { EventLine.put(Location(.root), 42, to: &$0) { $0.append(node, style: .export) } }
    add("sync") {
      let title = Assignment(Path.root.child("title"), "Rain")
      let body = Assignment(Path.root.child("body"), "Eleven millimetres.")
      EventLine.patch([body, title], 42, to: &$0)
    }
    add("all") { EventLine.cancel(.permissionDenied, to: &$0) }
    return lines
  }

  private static var codeText: String {
    var text = """
      ## Error codes

      A code never changes its meaning. The sentence is for people and may change.

      | Code | Meaning |
      |---|---|

      """
    for code in WireError.Code.allCases {
      text += "| `\(code.rawValue)` | \(meaning(of: code)) |\n"
    }
    text += """

      ## Reasons

      A failed request about an account may have a reason, in brackets between the code and the sentence:
      `-CONFLICT [TAKEN] that e-mail address or user name is not available; choose another or log in`. A reason never
      changes its meaning. Ignore a reason that you do not know: later servers may have more.

      | Reason | Code | Meaning |
      |---|---|---|

      """
    for reason in WireError.Reason.allCases {
      text += "| `\(reason.rawValue)` | \(meaning(of: reason)) |\n"
    }
    return text
  }

  /// A text for a cell of a table, in which `|` would end the cell.
  private static func cell(_ text: String) -> String { text.replacing("|", with: #"\|"#) }
}
