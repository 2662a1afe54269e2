/// Malformed requests about accounts, as official Auth clients send them.
extension FuzzText {
  private static let accountMethods = [
    "signUp", "signInWithPassword", "signInWithCustomToken", "lookup", "update", "delete",
    "sendOobCode", "resetPassword", "createAuthUri", "",
  ]

  /// Returns a request whose body has the members of such requests, with values of the right and of wrong types.
  mutating func identityRequest() -> [UInt8] {
    let isRefresh = oneIn(6)
    let target =
      isRefresh
      ? "/securetoken.googleapis.com/v1/token"
      : "/identitytoolkit.googleapis.com/v1/accounts:" + pick(FuzzText.accountMethods)
    let isForm = isRefresh && oneIn(2)
    let body = mutated(isForm ? refreshForm() : accountBody(), oneIn: 8)
    let type = isForm ? "application/x-www-form-urlencoded" : "application/json"
    let head =
      "POST \(target)\(oneIn(3) ? "?key=x" : "") HTTP/1.1\r\nHost: localhost\r\nContent-Type: \(type)\r\n"
    return Array((head + "Content-Length: \(body.count)\r\n\r\n").utf8) + body
  }

  private mutating func accountBody() -> String {
    let names = [
      "email", "password", "idToken", "refreshToken", "refresh_token", "grant_type", "token",
      "returnSecureToken", "localId", "displayName", "oobCode", "newPassword", "requestType",
      "deleteAttribute", "customAttributes", "disableUser", "validSince", "tenantId",
    ]
    let members = (0..<(1 + below(5))).map { _ in "\"\(pick(names))\":\(accountValue())" }
    return "{" + members.joined(separator: ",") + "}"
  }

  private mutating func accountValue() -> String {
    switch below(8) {
    case 0: "\"fuzz\(below(40))@example.com\""
    case 1: pick(["\"\"", "\"@\"", "\"a@b@c\"", "\"x@[::1]\"", "\"\\u0000@b.c\""])
    case 2: pick(["\"secret pass phrase\"", "\"short\"", "\"\\ud83c\\udf33\""])
    case 3: "\"\(credential().filter { $0 >= " " && $0 != "\"" && $0 != "\\" })\""
    case 4: pick(["\"refresh_token\"", "\"PASSWORD_RESET\"", "\"VERIFY_EMAIL\"", "\"X\""])
    case 5: pick(["true", "false", "null", "[]", "{}", "-1", "[\"EMAIL\",1]"])
    case 6: "\"\(String(repeating: "x", count: below(2_000)))\""
    default: json(2)
    }
  }

  private mutating func refreshForm() -> String {
    let token = pick([token, "", "%", "%zz", "a.b.c", "%00", "x=y=z"])
    return pick(["grant_type=refresh_token", "grant_type=", "grant_type", "a=b&&c"])
      + "&refresh_token=" + token
  }
}
