internal import CanopyTree

/// The verb of a request: its place in the command table.
///
/// Metrics count requests by it. A request of another protocol has the verb that the line protocol has for it. The
/// requests of the blog, of accounts and of the administrator name their verbs in the files of these verbs.
public struct Verb: Sendable {
  /// The verb as text, in capitals.
  public let name: StaticString
  /// The position in `Command.all`.
  public let index: Int

  /// Finds a verb, which takes time in proportion to their number.
  ///
  /// Precondition: `Command.all` has the verb.
  init(_ name: StaticString) {
    let verb = "\(name)"
    guard let index = Command.all.firstIndex(where: { $0.verb.hasSameBytes(as: verb) }) else {
      preconditionFailure("the command table has no \(verb)")
    }
    (self.name, self.index) = (name, index)
  }
}

extension Request {
  /// The verb of the request.
  public var verb: Verb {
    switch self {
    case .read(let read): read.verb
    case .write(let write): write.verb
    case .account(let account): account.verb
    case .listen(.listen), .listen(.info): .listen
    case .listen(.watch): .watch
    case .listen(.unlisten): .unlisten
    case .connection(.quit): .quit
    case .connection(.use): .use
    case .connection(.onDisconnect): .onDisconnect
    case .administration(let administration): administration.verb
    }
  }
}

extension ReadRequest {
  /// The verb of the request.
  public var verb: Verb {
    switch self {
    case .hello: .hello
    case .ping: .ping
    case .help: .help
    case .whoAmI: .whoAmI
    case .blog(let read): read.verb
    case .get, .info: .get
    case .count: .count
    case .rules: .rules
    case .keys: .keys
    case .atLeast(_, let read): read.verb
    }
  }
}

extension WriteRequest {
  /// The verb of the request.
  public var verb: Verb {
    switch self {
    case .blog(let write): write.verb
    case .push: .push
    case .tree(.set): .set
    case .tree(.update): .update
    case .tree(.compareAndSet): .compareAndSet
    case .once, .undecoded: .once
    }
  }
}

extension Verb {
  fileprivate static let hello = Verb("HELLO")
  fileprivate static let ping = Verb("PING")
  fileprivate static let help = Verb("HELP")
  fileprivate static let whoAmI = Verb("WHOAMI")
  fileprivate static let use = Verb("USE")
  fileprivate static let quit = Verb("QUIT")
  fileprivate static let watch = Verb("WATCH")
  fileprivate static let get = Verb("GET")
  fileprivate static let count = Verb("COUNT")
  fileprivate static let set = Verb("SET")
  fileprivate static let update = Verb("UPDATE")
  fileprivate static let push = Verb("PUSH")
  fileprivate static let compareAndSet = Verb("CAS")
  fileprivate static let once = Verb("ONCE")
  fileprivate static let listen = Verb("LISTEN")
  fileprivate static let unlisten = Verb("UNLISTEN")
  fileprivate static let onDisconnect = Verb("ONDISCONNECT")
}
