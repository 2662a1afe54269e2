public import CanopyTree

/// Who asks, and when: what rules know as `auth` and `now`.
///
/// Made once for a login; `auth` is a tree value so that its members cost nothing to look up.
public struct RuleCaller: Sendable {
  /// `uid`, `provider`, `token`, or whatever rules are to see; nil for nobody.
  public let auth: Node?
  /// Milliseconds since 1970; in a write, the same that its server values were resolved with.
  public var now: Int64

  /// A caller with any `auth`; what is absent is nobody.
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

  /// `auth.uid`, which nearly every rule asks for; as a key, since most of those look for one.
  let uid: Value

  /// A user.
  ///
  /// - Parameters:
  ///   - uid: the user's id.
  ///   - provider: how they logged in.
  ///   - token: what is claimed of them beyond that (`auth.token.email`…).
  public static func auth(
    uid: String, provider: String = "password", token: Node = .absent
  ) -> Node {
    let members: [(Key, Node)] = [
      ("provider", Node(provider)), ("token", token), ("uid", Node(uid)),
    ]
    return Node(children: members)
  }
}
