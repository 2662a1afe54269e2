import CanopyTesting
import CanopyTree
import CanopyWire
import Testing

/// Returns the request of a line, or the error.
func outcome(_ line: [UInt8], limits: Limits = Limits()) -> Result<Request, WireError> {
  line.withUnsafeBytes { bytes in
    do throws(WireError) { return .success(try Request(line: bytes, limits: limits)) } catch {
      return .failure(error)
    }
  }
}

/// Returns the request of a text, or the error.
func outcome(_ line: String) -> Result<Request, WireError> {
  outcome(Array(line.utf8))
}

/// Returns the error of a line; records an issue if it is a request.
func refusal(_ line: String, _ location: SourceLocation = #_sourceLocation) -> WireError? {
  switch outcome(line) {
  case .success(let request):
    Issue.record("\(line) is taken as \(request)", sourceLocation: location)
    return nil
  case .failure(let error):
    return error
  }
}

/// Whether text fits in one line and shows all its characters.
func isOneLine(_ text: String) -> Bool {
  text.unicodeScalars.allSatisfy { scalar in
    switch scalar.properties.generalCategory {
    case .control, .format, .lineSeparator, .paragraphSeparator, .surrogate: false
    default: true
    }
  }
}

/// A verb of the protocol reference with a line of its required arguments and its optional arguments.
struct Sample: CustomTestStringConvertible, Sendable {
  var verb: String
  var usage: String
  var required: [String]
  var optional: [String] = []

  /// The required arguments, if they are not a prefix of all arguments.
  var fewest: [String]?

  var minimum: String { ([verb] + (fewest ?? required)).joined(separator: " ") }
  var maximum: String { ([verb] + required + optional).joined(separator: " ") }
  var testDescription: String { verb }

  init(
    _ usage: String, _ required: [String] = [], optional: [String] = [], fewest: [String]? = nil
  ) {
    self.fewest = fewest
    verb = String(usage.prefix { $0 != " " })
    self.usage = usage
    self.required = required
    self.optional = optional
  }

  static let id = "-OdAbCdEfGhIjKlMnOpQ"

  /// The tables of the protocol reference, in its sequence.
  static let session = [
    Sample("HELLO"),
    Sample("PING"),
    Sample("HELP [verb]", optional: ["GET"]),
    Sample("SIGNUP email password username", ["ada@example.org", "\"engine of 1843\"", "ada"]),
    Sample("LOGIN email password", ["ada@example.org", "\"engine of 1843\""]),
    Sample("AUTH token", ["0123456789"]),
    Sample("REDEEM token", ["0123456789"]),
    Sample("WHOAMI"),
    Sample("LOGOUT"),
    Sample("PASSWORD current new", ["\"engine of 1843\"", "difference-engine"]),
    Sample("RENAME username", ["countess"]),
    Sample("USE namespace", ["my-blog"]),
    Sample("QUIT"),
    Sample("ACCOUNT"),
    Sample("ANONYMOUS"),
    Sample("CUSTOM token", ["0123456789"]),
    Sample("ISSUE uid [claims]", ["robot"], optional: ["{\"level\":3}"]),
    Sample("CONFIRM email password", ["ada@example.org", "\"engine of 1843\""]),
    Sample(
      "CREDENTIALS {\"email\":…,\"password\":…}",
      ["{\"email\":\"ada@example.org\",\"password\":\"engine of 1843\"}"]),
    Sample("DELETEACCOUNT [options]", optional: ["{\"posts\":true}"]),
    Sample(
      "EXPORT [user] [options]", optional: ["@ada", "{\"after\":\"posts:\(id)\",\"limit\":1000}"]),
    Sample("IDTOKEN"),
    Sample("FORGOT email", ["ada@example.org"]),
    Sample("RESET code [new]", ["0123456789"], optional: ["\"engine of 1843\""]),
    Sample("VERIFY [code]", optional: ["0123456789"]),
  ]

  static let blog = [
    Sample("POST title body", ["\"A title\"", "\"A body\\nof two lines\""]),
    Sample("EDIT id title body", [id, "Title", "Body"]),
    Sample("DELETE id", [id]),
    Sample("SHOW id", [id]),
    Sample("STAR id", [id]),
    Sample("COMMENT id text", [id, "\"So it is.\""]),
    Sample("UNCOMMENT id commentId", [id, id]),
    Sample("COMMENTS id [page]", [id], optional: ["{\"limit\":2,\"before\":\"\(id)\"}"]),
    Sample("RECENT [page]", optional: ["{\"limit\": 2, \"before\": \"\(id)\"}"]),
    Sample("POSTS user [page]", ["@ada"], optional: ["{\"limit\":100}"]),
    Sample("TOP [user] [page]", optional: ["me", "{\"limit\":3}"]),
    Sample("PROFILE user", ["me"]),
    Sample(
      "WATCH RECENT|POSTS|TOP|SHOW|COMMENTS [user|id] [options]", ["top"],
      optional: ["@ada", "{\"limit\":3,\"since\":41}"]),
  ]

  static let tree = [
    Sample(
      "GET path [options]", ["/a/b"],
      optional: ["{\"orderBy\":\"$key\",\"startAt\":\"a\",\"limitToLast\":3,\"export\":true}"]),
    Sample(
      "COUNT path [options]", ["/a"], optional: ["{\"orderBy\":\"c/d\",\"equalTo\":[1,\"k\"]}"]),
    Sample("SET path json", ["/a/.priority", "{\".sv\":\"timestamp\"}"]),
    Sample("UPDATE path {\"path\":json,…}", ["/", "{\"a/b\":[1,2],\"c\":null}"]),
    Sample("REMOVE path", ["\"/a b\""]),
    Sample("PUSH path json", ["/a", "[true,false,null,-1.5e3]"]),
    Sample("CAS path etag json", ["/a", "null_etag", "\"text\""]),
    Sample(
      "ONCE client number seen SET|UPDATE|REMOVE|CAS path [etag] [json]",
      ["k-1", "2", "0", "CAS", "/a"], optional: ["null_etag", "{\"b\":1}"],
      fewest: ["k-1", "2", "0", "REMOVE", "/a"]),
    Sample(
      "LISTEN path [options]", ["/a"],
      optional: ["{\"orderBy\":\"c\",\"limitToFirst\":2,\"events\":\"sync\",\"since\":0}"]),
    Sample("UNLISTEN sub", ["3"]),
    Sample(
      "ONDISCONNECT SET|UPDATE|REMOVE|CANCEL path [json]", ["UPDATE", "/a"],
      optional: ["{\"b/c\":{\".sv\":\"timestamp\"},\"d\":null}"], fewest: ["CANCEL", "/a"]),
  ]

  static let administration = [
    Sample("KEYS path [options]", ["/a"], optional: ["{\"after\":\"b\",\"limit\":1000}"]),
    Sample("RULES [text]", optional: ["\"{\\\"rules\\\":{}}\""]),
    Sample("CHECKRULES text", ["\"{\\\"rules\\\":{}}\""]),
    Sample(
      "EXPLAIN who READ|SET|UPDATE|REMOVE path [json]", ["{\"uid\":\"x\"}", "UPDATE", "/a"],
      optional: ["{\"b/c\":{\".sv\":\"timestamp\"},\"d\":null}"],
      fewest: ["null", "REMOVE", "/a"]),
    Sample("USERS [options]", optional: ["{\"after\":\"ada@example.org\",\"limit\":100}"]),
    Sample("USER user", ["ada@example.org"]),
    Sample("DISABLE user", ["@ada"]),
    Sample("ENABLE user", ["@ada"]),
    Sample("SETPASSWORD user new", ["@ada", "\"engine of 1843\""]),
    Sample("SESSIONS user [options]", ["@ada"], optional: ["{\"limit\":1}"]),
    Sample("ENDSESSIONS user", ["@ada"]),
    Sample(
      "ADDUSER email password username", ["ada@example.org", "\"engine of 1843\"", "ada"]),
    Sample("RESETCODE user", ["@ada"]),
    Sample("DELETEUSER user [options]", ["@ada"], optional: ["{\"posts\":true}"]),
    Sample("METRICS"),
    Sample("LOG [options]", optional: ["{\"after\":0,\"level\":\"warning\",\"limit\":1000}"]),
    Sample("LOGLEVEL [level]", optional: ["debug"]),
    Sample("CLIENTS [options]", optional: ["{\"after\":17,\"limit\":1000}"]),
    Sample("CLIENT id [options]", ["17"], optional: ["{\"limit\":1000}"]),
    Sample("ENDCLIENT id", ["17"]),
    Sample("NAMESPACES"),
    Sample("PASS"),
    Sample("ENDPASS token", ["0123456789"]),
    Sample("BACKUP"),
    Sample("BACKUPS"),
  ]

  static let all = session + blog + tree + administration
}
