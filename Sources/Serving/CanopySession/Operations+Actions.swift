internal import CanopyTree
internal import CanopyWire
internal import Logging

/// The log of what the administrator has done. It names the account and the connection, and has no secrets.
extension Operations {
  /// Writes a line about an action.
  ///
  /// - Parameters:
  ///   - client: the number of the connection of the administrator, as in CLIENTS.
  ///   - address: the address of the connection.
  func log(_ action: String, _ details: Logger.Metadata, _ client: Int64?, _ address: String) {
    var metadata = details
    if let client { metadata["client"] = "\(client)" }
    if !address.isEmpty { metadata["from"] = "\(address)" }
    logger.notice("the administrator \(action)", metadata: metadata)
  }
}

/// The lines of the log about actions of the administrator.
enum AdministratorAction {
  /// Returns the words of the line about a request that was carried out, and its details; nil for a request that only
  /// reads, or that has a line of its own.
  static func line(
    of request: AdministrationRequest, _ reply: Reply
  ) -> (action: String, metadata: Logger.Metadata)? {
    switch request {
    case .setDisabled(true, let account): ("has disabled an account", target(account, reply))
    case .setDisabled(false, let account): ("has enabled an account", target(account, reply))
    case .setPassword(_, let account):
      ("has set the password of an account", target(account, reply))
    case .endSessions(let account):
      ("has ended the sessions of an account", target(account, reply))
    case .addUser: ("has created an account", target(nil, reply))
    case .makeResetCode(let account):
      ("has made a code for a new password of an account", target(account, reply))
    case .deleteUser(let account, let withPosts):
      (
        "has deleted an account",
        target(account, reply).merging(["posts": "\(withPosts)"]) { $1 }
      )
    case .export(let account, let page):
      page.after == nil ? ("has exported the data of a user", target(account, reply)) : nil
    case .makePass: ("has made a pass to the console", [:])
    case .endPass: ("has ended a pass to the console", [:])
    case .setRules, .endClient, .makeBackup, .logLevel: nil
    case .checkRules, .explain, .users, .user, .sessions, .clients, .client, .metrics, .log,
      .namespaces, .listBackups:
      nil
    }
  }

  /// Returns the uid of the account, which the reply has, and the name by which the administrator named it.
  private static func target(_ account: AccountReference?, _ reply: Reply) -> Logger.Metadata {
    var metadata: Logger.Metadata = [:]
    if case .json(.object(let members)) = reply,
      case .text(let uid)? = members.first(where: { $0.0.hasSameBytes(as: "uid") })?.1
    {
      metadata["uid"] = "\(uid)"
    }
    switch account {
    case .username(let name)?: metadata["named"] = "@\(name)"
    case .address(let text)?, .uid(let text)?: metadata["named"] = "\(text)"
    case nil: break
    }
    return metadata
  }
}
