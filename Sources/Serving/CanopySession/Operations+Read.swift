internal import CanopyAccounts
public import CanopyEngine
internal import CanopySocial
internal import CanopySystem
public import CanopyTree
public import CanopyWire
internal import Synchronization

extension Operations {
  /// Carries out a read if that does not take long.
  ///
  /// - Parameter root: the root of the snapshot to read.
  /// - Returns: nil if it takes long: `longRead` is to be called.
  /// - Complexity: O(`Limits.wholeReplyBytesMax`) at most, and a bounded number of steps of the rules.
  public func read(_ request: ReadRequest, as identity: Identity, in root: Node) -> Reply? {
    do {
      return try reply(to: request, as: identity, in: root, isLong: false)
    } catch is LongRead {
      return nil
    } catch {
      return .failure(wireError(error))
    }
  }

  /// Carries out a read that may take long, beside the caller's thread. Cancelling the task interrupts it.
  ///
  /// - Parameters:
  ///   - turns: the connection and its network, which share their turns.
  ///   - root: returns the root of the snapshot to read, when the turn of the read has come. A read that waits must not
  ///     hold a snapshot: each would keep a version of the tree in memory. Nil if the connection has events to send
  ///     before: then the read gives its turn back.
  ///   - rootAfterEvents: waits until these events are sent, and returns the root of the snapshot after them.
  public func longRead(
    _ request: ReadRequest, as identity: Identity, turns: TurnGroup?,
    in root: @escaping @Sendable () async -> Node?,
    after rootAfterEvents: @escaping @Sendable () async -> Node
  ) async -> Reply {
    let interruption = Interruption()
    let read = { @Sendable [self] (root: Node) throws in
      try reply(to: request, as: identity, in: root, isLong: true, interruption)
    }
    let hash = { @Sendable [self] (root: Node, pause: () throws -> Void) throws in
      try reply(
        to: request, as: identity, in: root, isLong: true, interruption, pausing: pause)
    }
    do {
      return try await withTaskCancellationHandler {
        if let location = request.locationOfETag {
          let value = { @Sendable (root: Node) in root.at(location) }
          if let reply = try await hashing(turns, in: root, of: value, hash) { return reply }
          let root = await rootAfterEvents()
          let reply = try await hashing(turns, in: { root }, of: value, hash)
          return reply ?? .failure(WireError.tooManyEvents)
        }
        let reply = try await longWork.withTurn(of: turns) { () -> Reply? in
          guard let root = await root() else { return nil }
          return try await Operations.onWorker { try read(root) }
        }
        if let reply { return reply }
        let root = await rootAfterEvents()
        return try await beside(turns) { try read(root) }
      } onCancel: {
        interruption.make()
      }
    } catch {
      return .failure(wireError(error))
    }
  }

  /// Adds the index that a read of the administrator needs, if it does not exist. For all other callers the rules
  /// declare it. A snapshot that is taken afterwards has the index.
  public func prepare(_ request: ReadRequest) async {
    switch request {
    case .get(let location, let options): await keepIndex(options.query, at: location.path)
    case .count(let path, let query): await keepIndex(query, at: path)
    case .atLeast(_, let read): await prepare(read)
    case .hello, .ping, .help, .whoAmI, .blog, .info, .rules, .keys: break
    }
  }

  /// The length in bytes from which on a text is decoded by `decodeBeside`: decoding 1 MiB takes up to 100 ms, and a text
  /// of this length up to half a millisecond.
  public static let longTextBytes = 4 * 1024
  /// The length in bytes from which on decoding a text counts as long work, such as a long read.
  static let hugeTextBytes = 64 * 1024

  /// Runs `body` on a thread where it may take long, one call at a time, as each takes a core.
  ///
  /// - Parameter group: the connection and its network, which share their turns; nil for a call of its own.
  /// - Throws: the error of `body`; `CancellationError` if the task is cancelled before its turn.
  public func beside<R: Sendable>(
    _ group: TurnGroup? = nil, _ body: @escaping @Sendable () throws -> R
  ) async throws -> R {
    try await longWork.withTurn(of: group) { try await Operations.onWorker(body) }
  }

  /// Runs `body` as `beside` does, with a version of the tree that is taken in the turn of the call. A call that waits must
  /// not hold a version: each would keep another one in memory.
  ///
  /// - Parameters:
  ///   - group: the connection and its network, which share their turns.
  ///   - version: returns the present version; nil if the connection has events to send before. Then the call gives its
  ///     turn back.
  ///   - eventsSent: waits until these events are sent.
  /// - Throws: the error of `body`; `CancellationError` if the task is cancelled before its turn; `WireError` if there are
  ///   always more events.
  public func beside<Version: Sendable, R: Sendable>(
    _ group: TurnGroup?, in version: @Sendable () async -> Version?,
    after eventsSent: @Sendable () async -> Void,
    _ body: @escaping @Sendable (Version) throws -> R
  ) async throws -> R {
    for _ in 0..<Operations.versionTriesMax {
      let result = try await longWork.withTurn(of: group) { () -> R? in
        guard let version = await version() else { return nil }
        return try await Operations.onWorker { try body(version) }
      }
      if let result { return result }
      await eventsSent()
    }
    throw WireError.tooManyEvents
  }

  /// The number of times that work waits for the events before it. In most turns there are none.
  public static let versionTriesMax = 64

  /// Decodes a text as `beside` runs its body. Texts below `hugeTextBytes` have turns of their own, whose cost is their
  /// length. So a post of a few kilobytes does not wait for a longer text of each other network, but only for those that
  /// have waited for most of their turn.
  ///
  /// A longer text takes as many turns of long work as it needs, each of `longTurnMax`. It keeps a thread between its
  /// turns, so one of each network is under way.
  ///
  /// - Parameters:
  ///   - bytes: the length of the text.
  ///   - group: the connection and its network, which share their turns; nil for a call of its own.
  ///   - turnMax: the time after which a turn ends.
  ///   - body: gets a closure to call often.
  /// - Throws: the error of `body`; `CancellationError` if the task is cancelled before a turn.
  public func decodeBeside<R: Sendable>(
    bytes: Int, _ group: TurnGroup?, turnMax: Duration = longTurnMax,
    _ body: @escaping @Sendable (_ pause: @escaping () throws -> Void) throws -> R
  ) async throws -> R {
    guard bytes < Operations.hugeTextBytes else {
      return try await decodings.withTurn(of: group) {
        try await PacedWork(turnMax: turnMax, elapsed: engine.elapsed, body)
          .run(in: longWork, of: group)
      }
    }
    return try await textWork.withTurn(of: group, cost: bytes) {
      try await Operations.onWorker { try body {} }
    }
  }

  /// Computes events on a thread where that may take long, one call at a time.
  ///
  /// - Parameters:
  ///   - group: the connection and its network, which share their turns.
  ///   - body: always called. It must not wait for another request.
  public func computeEvents(
    for group: TurnGroup, _ body: @escaping @Sendable () -> Void
  ) async {
    do {
      try await eventWork.withTurn(of: group) {
        await withCheckedContinuation { continuation in
          let run = { @Sendable in
            body()
            continuation.resume()
          }
          if !WorkerThread.start(niceness: 5, run) { run() }
        }
      }
    } catch {
      // The task was cancelled before its turn.
      body()
    }
  }

  /// Runs `body` on a thread of its own.
  ///
  /// The threads of tasks are few, and not to be held. The thread stands back behind the event loops and the writer,
  /// because its caller asked for long work and theirs did not.
  static func onWorker<R: Sendable>(
    _ body: @escaping @Sendable () throws -> R
  ) async throws -> R {
    try await withCheckedThrowingContinuation { continuation in
      let started = WorkerThread.start(niceness: 5) {
        continuation.resume(with: Result { try body() })
      }
      if !started { continuation.resume(throwing: WireError.noThread) }
    }
  }

  /// Returns the group in which the long work of a connection takes turns: one for all connections of a remote
  /// network, so that opening more of them gives no more turns. Each connection from this machine has its own, but those
  /// of web pages of foreign sites, which a person on it has open, count as one network.
  ///
  /// - Parameters:
  ///   - address: the address of the client.
  ///   - isOfForeignPage: whether a web page of a foreign site has made a request of the connection.
  public static func turns(
    of connection: ObjectIdentifier, at address: String, isOfForeignPage: Bool = false
  ) -> TurnGroup {
    var network = RemoteNetwork(address)
    if isOfForeignPage, network.isThisMachine { network = .foreignPage }
    return TurnGroup(
      network: network.isThisMachine ? nil : "\(network)", connection: connection)
  }

  private func keepIndex(_ query: Query, at path: Path) async {
    // Few children are sorted faster than an index of them is kept.
    let node = engine.root.at(path)
    if node.childCount > 256, !query.isIndexed(in: node) {
      await engine.keepIndex(query.order, at: path)
    }
  }

  /// - Parameters:
  ///   - isLong: whether it may take long.
  ///   - interruption: ends a read that takes long; nil for none.
  ///   - pause: called often while an ETag is computed.
  /// - Throws: `LongRead` if it takes long and may not; `CancellationError` if it was interrupted.
  func reply(
    to request: ReadRequest, as identity: Identity, in root: Node, isLong: Bool,
    _ interruption: Interruption? = nil, pausing pause: () throws -> Void = {}
  ) throws -> Reply {
    switch request {
    case .ping: return Operations.pong
    case .hello: return .json(hello)
    case .help(nil): return .json(Operations.help)
    case .help(let verb?): return .json(try help(verb))
    case .whoAmI: return whoAmI(identity, in: hasBlog ? root : profiles)
    case .blog(let request): return try reply(to: request, as: identity, in: root)
    case .get(let location, let options):
      try checkRead(location.path, options.query, in: root, as: identity, isLong: isLong)
      return try value(
        at: location, options, in: root, isLong: isLong, interruption, pausing: pause)
    case .count(let path, let query):
      try checkRead(path, query, in: root, as: identity, isLong: isLong)
      let node = root.at(path)
      if !isLong, takesLong(query, in: node) { throw LongRead() }
      return .json(.number(Int64(query.count(in: node))))
    case .rules:
      try requireAdministrator(identity)
      let version = rules.current
      return .json(["builtIn": .bool(version.isBuiltIn), "text": .text(version.text)])
    case .keys(let path, let page):
      try requireAdministrator(identity)
      return keys(path, page, in: root)
    case .info(let path):
      return .value(try info(path), .plain, etag: nil, bytes: ValueBytes())
    case .atLeast(_, let read):
      return try reply(
        to: read, as: identity, in: root, isLong: isLong, interruption, pausing: pause)
    }
  }

  /// Checks that the rules allow a read.
  ///
  /// - Throws: `WireError`, and `LongRead` if the rules take long and may not.
  private func checkRead(
    _ path: Path, _ query: Query, in root: Node, as identity: Identity, isLong: Bool
  ) throws {
    if isLong {
      try checkRead(path, query, in: root, as: identity)
    } else if try !checkReadBriefly(path, query, in: root, as: identity) {
      throw LongRead()
    }
  }

  /// The most children that a query selects on the caller's thread if it may pass others: about half a millisecond.
  static let passingReadMax = 64

  /// Whether many children are to be sorted for a query, or passed.
  private func takesLong(_ query: Query, in node: Node) -> Bool {
    guard node.childCount > 256 else { return false }
    return !query.isIndexed(in: node)
      || query.passesChildren(in: node) && query.count(in: node) > Operations.passingReadMax
  }

  private func value(
    at location: Location, _ options: GetOptions, in root: Node, isLong: Bool,
    _ interruption: Interruption?, pausing pause: () throws -> Void
  ) throws -> Reply {
    try interruption?.check()
    let node = root.at(location)
    let style: JSONStyle = options.isExport ? .export : .plain
    // A leaf has no children to select, so an order alone leaves it as it is, for a listener as well.
    let isQueried = options.hasQuery && (node.isBranch || !options.query.isUnbounded)
    if isQueried, !isLong, takesLong(options.query, in: node) { throw LongRead() }
    var bytesMax = isLong ? limits.replyBytesMax : limits.wholeReplyBytesMax
    // Hashing takes much longer than writing.
    if options.wantsETag, !isLong { bytesMax = CompareAndSet.smallBytesMax }
    bytesMax = min(bytesMax, limits.replyBytesMax)
    var budget = ByteBudget(bytesMax)
    func excess() -> any Error { bytesMax < limits.replyBytesMax ? LongRead() : replyTooLarge }

    // `"k":1,` has six bytes.
    let childrenMax = bytesMax / 6
    var members: [(key: Key, node: Node)] = []
    var fits = true
    /// Adds a member. Returns whether it fits into the budget, so that a walk stops at the first that
    /// does not.
    func add(_ key: Key, _ node: Node) -> Bool {
      budget.takeMember(key)
      fits = node.fits(budget: &budget) && interruption?.isMade != true
      if fits { members.append((key, node)) }
      return fits
    }
    if isQueried {
      if options.query.isIndexed(in: node), options.query.count(in: node) > childrenMax {
        throw excess()
      }
      options.query.forEachChild(of: node, add)
    } else if options.isShallow, node.isBranch {
      guard node.childCount <= childrenMax else { throw excess() }
      node.forEachChild { add($0, $1.isBranch ? true : $1) }
    } else {
      guard node.fits(budget: &budget) else { throw excess() }
      guard budget.used.mayBeHeld(limits) else { throw replyTooLarge }
      try interruption?.check()
      let etag =
        options.wantsETag
        ? try node.etag(pausing: {
          try interruption?.check()
          try pause()
        }) : nil
      return .value(node, style, etag: etag, bytes: budget.used)
    }
    try interruption?.check()
    guard fits else { throw excess() }
    guard budget.used.mayBeHeld(limits) else { throw replyTooLarge }
    return .members(members, style, bytes: budget.used)
  }

  var replyTooLarge: WireError {
    WireError(
      .tooLarge,
      "the value or its memory is larger than a reply may be; ask for fewer entries, with a limit, with "
        + "\"shallow\":true, or further below")
  }

  /// The reply to PING.
  public static var pong: Reply { .json(.constant("\"PONG\"")) }

  /// The reply to HELP: the groups, and in each the usage and the summary of every verb.
  private static let help = ReplyJSON.object(
    Command.Group.allCases.map { group in
      let commands = Command.all.filter { $0.group == group }
      return (group.rawValue, .object(commands.map { ($0.usage, .text($0.summary)) }))
    })

  private func help(_ verb: String) throws(WireError) -> ReplyJSON {
    guard let command = Request.command(verb) else {
      throw WireError(.unknownVerb, "there is no such verb; HELP lists them")
    }
    return ["usage": .text(command.usage), "summary": .text(command.summary)]
  }

  private func whoAmI(_ identity: Identity, in root: Node) -> Reply {
    switch identity {
    case .administrator: return .administrator
    case .user(let session) where session.isValid(at: now()):
      return .json(.object(description(of: session, in: root)))
    case .user, .anonymous: return .null
    }
  }

  /// Returns the members of a reply that describe the user of a session.
  func description(
    of session: UserSession, in root: Node
  ) -> [(String, ReplyJSON)] {
    [
      ("uid", .key(session.uid)),
      ("username", .text(Users.username(of: session.uid, in: root) ?? "")),
      ("email", .text(session.email)),
    ]
  }

  /// The reply to HELLO: the name and version of the server, its time and its limits.
  private var hello: ReplyJSON {
    [
      "server": .text("canopy"), "version": .text(version), "protocol": .number(1),
      "time": .number(now()),
      "limits": .object(bounds.map { ($0.key, .number(Int64($0.value))) }),
    ]
  }

  /// The limits that are useful for a client.
  private var bounds: KeyValuePairs<String, Int> {
    [
      "lineBytes": limits.lineBytesMax, "keyBytes": Limits.keyBytesMax, "depth": Limits.depthMax,
      "stringBytes": limits.stringBytesMax, "updateLocations": limits.updateLocationsMax,
      "updatePathBytes": Limits.updatePathBytesMax, "leafPathBytes": Limits.leafPathBytesMax,
      "serverValues": Limits.serverValuesMax, "serverValueBytes": Limits.serverValueBytesMax,
      "outstandingRequests": limits.outstandingRequestsMax, "replyBytes": limits.replyBytesMax,
      "listeners": limits.listenersMax, "queriesPerLocation": limits.queriesPerLocationMax,
      "queuedBytes": limits.queuedBytesMax,
      "clientWrites": Limits.clientWritesMax, "priorityBytes": limits.priorityBytesMax,
      "disconnectWrites": limits.disconnectWritesMax, "disconnectBytes": limits.disconnectBytesMax,
      "disconnectLocations": limits.disconnectLocationsMax, "boundBytes": Limits.boundBytesMax,
      "writesPerSecond": limits.writesPerSecond,
      "writeBytesPerSecond": limits.writeBytesPerSecond,
      "writesPerSecondPerAddress": limits.writesPerSecondPerAddress,
      "writeBytesPerSecondPerAddress": limits.writeBytesPerSecondPerAddress,
      "writeBurstSeconds": limits.writeBurstSeconds, "storageBytes": limits.storageBytesMax,
      "titleCharacters": Texts.titleMax, "bodyCharacters": Texts.bodyMax,
      "commentCharacters": Texts.commentMax, "usernameCharacters": Texts.usernameMax,
      "page": Feeds.Page.limitMax,
    ]
  }
}

/// The end of a read before its result. Safe to use from any thread.
final class Interruption: Sendable {
  private let flag = Atomic(false)

  var isMade: Bool { flag.load(ordering: .relaxed) }

  func make() { flag.store(true, ordering: .relaxed) }

  /// - Throws: `CancellationError` if the interruption was made.
  func check() throws {
    if isMade { throw CancellationError() }
  }
}

extension ReadRequest {
  /// The location of the value whose ETag the reply has; nil for a reply without one.
  fileprivate var locationOfETag: Location? {
    switch self {
    case .get(let location, let options): options.wantsETag ? location : nil
    case .atLeast(_, let read): read.locationOfETag
    case .hello, .ping, .help, .whoAmI, .blog, .info, .rules, .keys, .count: nil
    }
  }
}

/// A read takes long, and is to be carried out on another thread.
private struct LongRead: Error {}

extension Node {
  /// Returns the node or the priority at a location.
  func at(_ location: Location) -> Node {
    location.isPriority ? at(location.path).priority : at(location.path)
  }
}
