public import CanopyAccounts
internal import CanopyEngine
internal import CanopyWire
internal import Logging

/// Requests of the console.
extension Operations {
  /// Makes a pass, and says at which address the console is.
  func makePass() -> ReplyJSON {
    let grant = passes.make()
    return [
      "token": .text(grant.token), "expires": .number(grant.expires),
      "console": consoleAddress.text.map { .text($0) } ?? .null,
    ]
  }

  /// Logs in as the administrator with a pass, or with the token that it gave.
  ///
  /// Both are only for clients on this machine: a pass is made for a person who sits at it. Only the line protocol has
  /// this request.
  func redeemPass(
    _ token: String, from address: String
  ) throws(WireError) -> Session.Completion {
    // A login that ends at this moment has no token any more.
    guard RemoteNetwork(address).isThisMachine, let grant = passes.redeem(token),
      let login = passes.login(of: grant.token)
    else {
      throw WireError(
        .unauthenticated,
        "the link was used already, has expired, or is for another machine; make one with canopy console"
      )
    }
    logger.notice("the administrator has logged in by a pass", metadata: ["from": "\(address)"])
    let members: [(String, ReplyJSON)] = [
      ("administrator", .bool(true)), ("token", .text(grant.token)),
      ("expires", .number(grant.expires)),
    ]
    var completion = Session.Completion(.json(.object(members)), identity: .administrator)
    completion.login = login
    return completion
  }

  /// Ends a login that began with a pass, on all of its connections.
  ///
  /// - Parameter armed: the on-disconnect writes that the connection has armed in it, which are not made.
  public func end(_ login: AdministratorLogin, dropping armed: [ArmedWrite]) {
    passes.end(login)
    drop(armed)
  }

  /// Returns the login that a token of `AdministratorPasses` stands for; nil for another text.
  public func login(ofPassToken token: String) -> AdministratorLogin? { passes.login(of: token) }

  /// Returns the names of the namespaces, and the last commit of this one.
  func listNamespaces() async throws -> Reply {
    let names = try await namespaces.names()
    let json: ReplyJSON = [
      "selected": .text("\(namespace)"), "seq": .number(engine.snapshot.sequence),
      "names": .array(([.default] + names).map { .text("\($0)") }),
    ]
    return try bounded(json, "list them with canopy namespace list")
  }
}
