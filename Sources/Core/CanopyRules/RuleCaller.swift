public import CanopyTree

/// The caller and the time of a request: `auth` and `now` in rules.
///
/// Created once per login. `auth` is a tree value, so access to its members is cheap.
public struct RuleCaller: Sendable {
  /// The caller's identity, with `uid`, `provider`, `token` and other members; nil for an anonymous
  /// caller.
  public let auth: Node?
  /// The time in milliseconds since 1970; in a write, the time that its server values were resolved
  /// with.
  public var now: Int64

  /// Creates a caller. A nil or absent `auth` is anonymous.
  public init(auth: Node?, now: Int64) {
    self.auth = auth.flatMap { $0.isAbsent ? nil : $0 }
    self.now = now
    let uid = self.auth.map { Value($0.child("uid")) } ?? .null
    if case .string(let text) = uid, let key = try? Key(text) {
      self.uid = .key(key)
    } else {
      self.uid = uid
    }
  }

  /// `auth.uid`, which nearly every rule uses; as a key, since most rules look one up.
  let uid: Value

  /// Returns the `auth` value of a user.
  ///
  /// - Parameters:
  ///   - uid: the user's id.
  ///   - provider: the method of authentication.
  ///   - token: further claims (`auth.token.email`…).
  public static func auth(
    uid: String, provider: String = "password", token: Node = .absent
  ) -> Node {
    let members: [(Key, Node)] = [
      ("provider", Node(provider)), ("token", token), ("uid", Node(uid)),
    ]
    return Node(children: members)
  }
}
