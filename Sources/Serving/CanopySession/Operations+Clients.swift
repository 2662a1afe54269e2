internal import CanopySocial
internal import CanopyTree
internal import CanopyWire
internal import Logging

/// Requests of the administrator about connections.
extension Operations {
  /// Returns a page of the open connections.
  ///
  /// - Parameter own: the number of the connection that asks.
  func clients(after: Int64, limit: Int, for own: Int64?) async throws -> Reply {
    let answer = await clientRegistry.ask(.page(after: after, limit: limit + 1))
    let json: ReplyJSON = [
      "clients": .array(
        answer.clients.prefix(limit).map { .object(members(of: $0, for: own)) }),
      "more": .bool(answer.clients.count > limit),
      "unanswered": .number(Int64(answer.unanswered)),
    ]
    return try bounded(json, "ask for fewer connections")
  }

  /// Returns a connection with its lists.
  func describe(_ id: Int64, listMax: Int, for own: Int64?) async throws -> Reply {
    guard let client = await clientRegistry.ask(.one(id, listMax: listMax)).clients.first else {
      throw Operations.noClient
    }
    let lists: [(String, ReplyJSON)] = [
      ("listens", .array(client.listens.map { ReplyJSON($0) })),
      ("onDisconnect", .array(client.armedLocations.map { .text("/" + $0.text) })),
    ]
    return try bounded(.object(members(of: client, for: own) + lists), "ask with a smaller limit")
  }

  /// Ends a connection.
  func end(_ id: Int64, for own: Int64?) async throws -> Reply {
    guard id != own else {
      throw WireError(.conflict, "this is your own connection; end it with QUIT")
    }
    let error = WireError(
      .unavailable, "the administrator has ended this connection; connect again later")
    let ended = await clientRegistry.ask(.end(id, error)).clients.first
    guard let ended else { throw Operations.noClient }
    logger.notice(
      "the administrator has ended a connection",
      metadata: ["client": "\(id)", "from": "\(ended.address)"])
    return .null
  }

  private static let noClient = WireError(
    .notFound, "there is no connection with this id; CLIENTS lists them")

  private func members(of client: ClientState, for own: Int64?) -> [(String, ReplyJSON)] {
    [
      ("id", .number(client.id)), ("protocol", .text(client.kind.rawValue)),
      ("address", .text(client.address)), ("user", user(of: client.identity)),
      ("since", .number(client.since)), ("namespace", .text("\(client.namespace)")),
      ("bytes", .number(Int64(client.bytes))), ("requests", .number(Int64(client.requests))),
      ("subscriptions", .number(Int64(client.subscriptions))),
      ("armed", .number(Int64(client.armed))), ("self", .bool(client.id == own)),
    ]
  }

  private func user(of identity: Identity) -> ReplyJSON {
    switch identity {
    case .administrator: return ["administrator": .bool(true)]
    case .user(let session) where session.isValid(at: now()):
      let name = Users.username(of: session.uid, in: profiles) ?? ""
      return ["uid": .key(session.uid), "username": .text(name)]
    case .user, .anonymous: return .null
    }
  }
}
