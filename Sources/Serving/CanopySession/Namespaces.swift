public import CanopyEngine
internal import CanopyTree
internal import CanopyWire
internal import Logging
internal import Synchronization

/// The open namespaces of a server, besides the default one.
///
/// A namespace is opened at its first use, one at a time; all that ask for it meanwhile wait for the same opening. It
/// stays open as long as a request or a connection holds a lease of it. Afterwards it is closed when it was idle for
/// long, or when another one needs its place. A namespace that is not open takes no memory.
///
/// A namespace is not opened if its tree does not fit in the bound on the memory of all trees, even after the idle ones
/// were closed. So requests for it take nothing from the namespaces in use.
///
/// If all places are taken, a namespace that only resting connections use leaves its place: those connections end. So
/// clients without a login cannot keep others out by connections that do nothing.
///
/// A request opens its namespace before the rules decide it, so a client may open many without any permission. Therefore
/// each remote network opens one namespace at a time, and its other requests wait. A network whose requests have opened a
/// quarter of all places or more closes one of those again before it opens another, and no namespace that others have
/// used a moment ago.
///
/// Safe to use from any thread.
public final class Namespaces: Sendable {
  /// The bounds on open namespaces.
  public struct Settings: Sendable {
    /// The most namespaces that are open at one time, besides the default one.
    public var openMax = 32
    /// The milliseconds after which a namespace that nothing uses is closed.
    public var idleMilliseconds: Int64 = 600_000

    /// The places that the requests of one network may take from others.
    var placesOfNetworkMax: Int { max(1, openMax / 4) }

    /// Creates the default settings.
    public init() {}
  }

  fileprivate struct Entry {
    enum Phase {
      case opening
      case open(OpenNamespace)
      case closing
    }

    var phase = Phase.opening
    /// The remote network whose request has opened the namespace; nil for this machine, and as soon as another network
    /// has used it.
    var network: String?
    /// Whether the opening begins when another namespace has left its place.
    var waitsForPlace = false
    var leases = 0
    /// The time at which the last lease ended.
    var idleSince: Int64 = 0
    /// The position of the end of the last lease among those of all namespaces.
    var lastEnd = 0
    /// Resumed at the end of the opening or closing.
    var waiting: [CheckedContinuation<Void, Never>] = []

    var isClosing: Bool {
      if case .closing = phase { true } else { false }
    }

    var isOpening: Bool {
      if case .opening = phase { true } else { false }
    }

    /// Whether its last use ended a moment ago.
    func wasJustUsed(at now: Int64) -> Bool {
      idleSince...idleSince + Namespaces.justUsedMilliseconds - 1 ~= now
    }
  }

  fileprivate struct Failure {
    let error: WireError
    let time: Int64
    /// The bytes of the tree, if they did not fit.
    var treeBytes: Int?

    /// Whether the namespace is not opened again yet. If the clock was set back, it is.
    func counts(at now: Int64) -> Bool {
      let length =
        treeBytes == nil ? Namespaces.failureMilliseconds : Namespaces.knownSizeMilliseconds
      return time...time + length - 1 ~= now
    }
  }

  fileprivate struct State {
    var entries: [NamespaceName: Entry] = [:]
    /// The namespaces that could not be opened a moment ago.
    var failures: [NamespaceName: Failure] = [:]
    var opened = 0
    /// The number of leases and openings that have ended.
    var ends = 0
    /// The times of the last searches for a namespace that only resting connections use, which found none. A network that
    /// searches among its own namespaces has a time of its own; all other searches have the time of nil.
    var lastSearches: [ByteString?: Int64] = [:]
    var isStopping = false
  }

  /// The next step of a caller.
  private enum Step {
    case use(NamespaceLease)
    /// Wait until the namespace of this name is open or closed.
    case wait(NamespaceName)
    /// All places are taken. Wait until the namespace of this name is open, because others may be idle then.
    case waitForPlace(NamespaceName)
    /// Open the namespace, in the place of an idle one if there is no other.
    case open(closing: (name: NamespaceName, namespace: OpenNamespace)?)
    /// All places are taken.
    case makeRoom
  }

  /// The milliseconds after a failure for which a namespace is not opened again.
  static let failureMilliseconds: Int64 = 2_000

  /// The milliseconds for which the size of a tree that did not fit is known. Until then it is not read again, unless it
  /// fits.
  static let knownSizeMilliseconds: Int64 = 60_000

  /// The milliseconds after a search for a place that found none for which there is no other search. A search asks all
  /// connections.
  static let searchMilliseconds: Int64 = 100

  /// The milliseconds after a use of a namespace for which it is not closed for a network that has its places.
  static let justUsedMilliseconds: Int64 = 5_000

  /// The most openings of other namespaces for which one request waits.
  private static let waitsForPlaceMax = 16

  /// The most searches for a place of one request. Another request may take the place that a search has found.
  private static let searchesMax = 3

  private let source: (any NamespaceSource)?
  private let settings: Settings
  private let tree: TreeBound?
  private let now: @Sendable () -> Int64
  private let logger: Logger
  private let endedConnectionLines: EndedConnectionLines
  private let state = Mutex(State())
  /// Opens one namespace at a time.
  private let openings = TurnQueue(width: 1)
  /// Searches for a place once at a time.
  private let searches = TurnQueue(width: 1)
  /// Admits one request of each network at a time that may open a namespace.
  private let callers = NetworkTurns()

  init(
    _ source: (any NamespaceSource)?, _ settings: Settings, tree: TreeBound?,
    now: @escaping @Sendable () -> Int64, logger: Logger,
    endedConnectionLines: EndedConnectionLines
  ) {
    self.source = source
    self.settings = settings
    self.tree = tree
    self.now = now
    self.logger = logger
    self.endedConnectionLines = endedConnectionLines
  }

  /// Returns the names of the stored namespaces besides the default one, in order.
  func names() async throws -> [NamespaceName] { try await source?.names() ?? [] }

  /// Whether a namespace does not exist yet, on a server that creates namespaces by itself.
  func isUncreated(_ name: NamespaceName) -> Bool {
    guard state.withLock({ $0.entries[name] == nil }) else { return false }
    switch source?.availability(of: name) {
    case .creatable, .full: return true
    case .stored, .lost, .missing, nil: return false
    }
  }

  /// The number of open namespaces, besides the default one.
  public var openCount: Int {
    state.withLock { $0.entries.values.count { !$0.waitsForPlace } }
  }

  /// The number of times that a namespace was opened.
  public var openedCount: Int { state.withLock { $0.opened } }

  /// The engines of the open namespaces.
  public var engines: [Engine] { open.map { $0.operations.engine } }

  private var open: [OpenNamespace] {
    state.withLock { state in
      state.entries.values.compactMap { entry in
        if case .open(let namespace) = entry.phase { namespace } else { nil }
      }
    }
  }

  /// Opens a namespace if it is not open, and keeps it open for the caller.
  ///
  /// - Parameters:
  ///   - home: the operations of the default namespace.
  ///   - turns: the connection of the request and its network; nil for a request of the server.
  /// - Throws: `WireError` if it does not exist, cannot be opened, or too many are in use; `.cancelled` if the task is
  ///   cancelled before its turn.
  func lease(
    _ name: NamespaceName, of home: Operations, for turns: TurnGroup? = nil
  ) async throws(WireError) -> NamespaceLease {
    let open = state.withLock { state in
      state.isStopping ? nil : leaseIfOpen(name, for: turns?.network, &state)
    }
    if let open { return open }
    do {
      return try await callers.withTurn(of: turns) {
        try await leaseInTurn(name, of: home, for: turns)
      }
    } catch let error as WireError {
      throw error
    } catch {
      throw .cancelled
    }
  }

  private func leaseInTurn(
    _ name: NamespaceName, of home: Operations, for turns: TurnGroup?
  ) async throws(WireError) -> NamespaceLease {
    var mayOpen = false
    var waits = 0
    var searchCount = 0
    while true {
      let entry = state.withLock { $0.entries[name] != nil }
      if !entry, !mayOpen {
        switch await source?.find(name) ?? .missing {
        case .stored, .creatable: mayOpen = true
        case .full(let countMax):
          throw WireError(
            .tooLarge,
            "a server creates at most \(countMax) namespaces by itself; delete some with canopy namespace remove"
          )
        case .lost:
          throw WireError(
            .unavailable,
            "the folder of the namespace \(name) is missing on the server; mount its disk, restore it from a backup, or "
              + "run canopy namespace remove \(name)")
        case .missing:
          throw WireError(
            .notFound,
            "there is no namespace \(name); create it with canopy namespace create \(name)")
        }
      }
      switch try next(name, for: turns?.network, mayWait: waits < Namespaces.waitsForPlaceMax) {
      case .use(let lease): return lease
      case .wait(let name): await waitForChange(of: name)
      case .waitForPlace(let name):
        waits += 1
        await waitForChange(of: name)
      case .makeRoom:
        searchCount += 1
        guard searchCount <= Namespaces.searchesMax else { throw tooMany }
        let room = try? await searches.withTurn(of: turns) {
          await makeRoom(for: turns?.network, askingIn: home.clientRegistry)
        }
        guard room == true else { throw tooMany }
      case .open(let idle):
        Task { [self] in
          if let idle {
            await close(idle.name, idle.namespace)
            state.withLock { $0.entries[name]?.waitsForPlace = false }
          }
          await openNow(name, home, turns)
        }
      }
    }
  }

  /// Returns a lease of a namespace if it is open.
  private func leaseIfOpen(
    _ name: NamespaceName, for network: String?, _ state: inout State
  ) -> NamespaceLease? {
    guard case .open(let namespace)? = state.entries[name]?.phase else { return nil }
    state.entries[name]?.leases += 1
    if state.entries[name]?.network != network { state.entries[name]?.network = nil }
    return NamespaceLease(namespace.operations) { [weak self] in self?.endLease(of: name) }
  }

  /// - Parameters:
  ///   - network: the remote network of the caller; nil for this machine.
  ///   - mayWait: whether the caller may wait for an opening of another namespace.
  private func next(
    _ name: NamespaceName, for network: String?, mayWait: Bool
  ) throws(WireError) -> Step {
    let now = now()
    let result: Result<Step, WireError> = state.withLock { state in
      if state.isStopping { return .failure(Namespaces.stopped) }
      if let lease = leaseIfOpen(name, for: network, &state) { return .success(.use(lease)) }
      if state.entries[name] != nil { return .success(.wait(name)) }
      if let failure = state.failures[name], failure.counts(at: now),
        failure.treeBytes.map({ !mayFit($0, state) }) ?? true
      {
        return .failure(failure.error)
      }
      // Entered at once, so that all other callers wait for this opening.
      guard state.entries.count >= settings.openMax else {
        state.entries[name] = Entry(network: network)
        return .success(.open(closing: nil))
      }
      if let idle = state.takeIdle(for: self.owner(network, state), at: now) {
        state.entries[name] = Entry(network: network, waitsForPlace: true)
        return .success(.open(closing: idle))
      }
      // A namespace that closes may leave its place.
      if let closing = state.entries.first(where: { $0.value.isClosing })?.key {
        return .success(.wait(closing))
      }
      let opening = mayWait ? state.entries.first { $0.value.isOpening }?.key : nil
      return .success(opening.map { .waitForPlace($0) } ?? .makeRoom)
    }
    return try result.get()
  }

  /// Returns the network if its requests have opened its places; else nil.
  private func owner(_ network: String?, _ state: State) -> String? {
    guard let network,
      state.entries.values.count(where: { $0.network == network }) >= settings.placesOfNetworkMax
    else { return nil }
    return network
  }

  /// Ends the connections to the namespace that has the earliest last use of those that only resting connections use. For
  /// a network that has its places, it is one of those that its requests have opened.
  ///
  /// - Returns: whether there was one.
  private func makeRoom(for network: String?, askingIn clients: ClientRegistry) async -> Bool {
    let time = now()
    func isRecent(_ search: Int64) -> Bool {
      search...search + Self.searchMilliseconds - 1 ~= time
    }
    let (owner, lastSearch) = state.withLock { state -> (String?, Int64?) in
      let owner = self.owner(network, state)
      return (owner, state.lastSearches[owner.map { ByteString($0) }])
    }
    guard lastSearch.map(isRecent) != true else { return false }
    var counts: [NamespaceName: Int] = [:]
    for client in await clients.ask(.resting).clients {
      counts[client.namespace, default: 0] += 1
    }
    let found = state.withLock { state in
      let name = state.leastUsed { name, entry in
        entry.leases == counts[name] ?? 0 && (owner == nil || entry.network == owner)
      }
      state.lastSearches = state.lastSearches.filter { isRecent($0.value) }
      state.lastSearches[owner.map { ByteString($0) }] = name == nil ? time : nil
      return name
    }
    guard let found else { return false }
    let error = WireError(
      .unavailable,
      "the namespace \(found) was closed for another one, because this connection was idle; connect again"
    )
    let ended = await clients.ask(.endResting(found, error)).clients
    endedConnectionLines.add(
      "idle connections were ended, because another namespace needed the place of theirs",
      ["namespace": "\(found)", "connections": "\(ended.count)"], to: logger)
    return true
  }

  private var tooMany: WireError {
    WireError(
      .overloaded,
      "at most \(settings.openMax) namespaces may be in use at one time; close connections to some, or start the "
        + "server with a larger --namespaces-max and a sufficient limit of open files")
  }

  private static let stopped = WireError(
    .unavailable, "the server is shutting down; try again later")

  private func endLease(of name: NamespaceName) {
    let now = now()
    state.withLock { state in
      guard let leases = state.entries[name]?.leases else { return }
      assert(leases > 0, "a namespace has fewer leases than are released")
      state.ends += 1
      state.entries[name]?.leases = leases - 1
      state.entries[name]?.idleSince = now
      state.entries[name]?.lastEnd = state.ends
    }
  }

  private func waitForChange(of name: NamespaceName) async {
    await withCheckedContinuation { continuation in
      let isOver = state.withLock { state in
        switch state.entries[name]?.phase {
        case .opening, .closing:
          state.entries[name]?.waiting.append(continuation)
          return false
        case .open, nil: return true
        }
      }
      if isOver { continuation.resume() }
    }
  }

  // MARK: Opening

  private func openNow(_ name: NamespaceName, _ home: Operations, _ turns: TurnGroup?) async {
    guard let source else { return }
    let result: Result<OpenNamespace, any Error>
    do {
      result = .success(
        try await openings.withTurn(of: turns) {
          try await OpenNamespace.open(name, from: source, home) { await admit($0) }
        })
    } catch {
      logger.error(
        "a namespace cannot be opened", metadata: ["namespace": "\(name)", "error": "\(error)"])
      result = .failure(error)
    }
    let now = now()
    let waiting = state.withLock { state in
      let waiting = state.entries[name]?.waiting ?? []
      switch result {
      case .success(let namespace):
        state.opened += 1
        state.failures[name] = nil
        state.ends += 1
        state.entries[name] = Entry(
          phase: .open(namespace), network: state.entries[name]?.network, idleSince: now,
          lastEnd: state.ends)
      case .failure(let error):
        state.entries[name] = nil
        state.failures = state.failures.filter { $0.value.counts(at: now) }
        let treeBytes = (error as? TreeDoesNotFit)?.bytes
        let sentence =
          treeBytes == nil
          ? "the namespace \(name) cannot be opened; the log of the server says why"
          : "the namespace \(name) does not fit in the memory for data beside the namespaces in use; try again "
            + "later, or start the server with a larger --tree-max"
        state.failures[name] = Failure(
          error: WireError(
            .unavailable, retryMilliseconds: treeBytes.map { _ in TreeBound.wait }, sentence),
          time: now, treeBytes: treeBytes)
      }
      return waiting
    }
    for waiter in waiting { waiter.resume() }
  }

  /// Adds the bytes of a tree to the bound, after idle namespaces were closed if that is necessary and enough.
  private func admit(_ bytes: Int) async -> Bool {
    guard let tree, bytes > 0 else { return true }
    while !tree.add(bytes, atMost: tree.bytesMaxOfOpening) {
      let idle = state.withLock { mayFit(bytes, $0) ? $0.takeIdle(before: .max) : nil }
      guard let idle else { return false }
      await close(idle.name, idle.namespace)
    }
    return true
  }

  /// Whether a tree fits in the bound, at least if all idle namespaces are closed.
  private func mayFit(_ bytes: Int, _ state: State) -> Bool {
    guard let tree else { return true }
    let idle = state.entries.values.reduce(0) { sum, entry in
      guard entry.leases == 0, case .open(let namespace) = entry.phase,
        namespace.operations.isIdle
      else { return sum }
      return sum + (namespace.operations.treeCount?.bytes ?? 0)
    }
    return bytes <= tree.bytesMaxOfOpening - (tree.bytes - idle)
  }

  // MARK: Closing

  private func close(
    _ name: NamespaceName, _ namespace: OpenNamespace, isShutdown: Bool = false
  ) async {
    await namespace.close(isShutdown: isShutdown)
    let waiting = state.withLock { $0.entries.removeValue(forKey: name)?.waiting ?? [] }
    for waiter in waiting { waiter.resume() }
  }

  /// Closes the namespaces that were idle for long; all idle ones if the data need the memory.
  public func closeIdle() async {
    let time = tree?.isAlmostFull == true ? .max : now() - settings.idleMilliseconds
    while let (name, namespace) = state.withLock({ $0.takeIdle(before: time) }) {
      await close(name, namespace)
    }
  }

  /// Closes all namespaces, and opens no others. Call it when no listener serves requests any more. All accepted writes
  /// are stored before it returns.
  public func closeAll() async {
    state.withLock { $0.isStopping = true }
    while let name = state.withLock({ $0.entries.keys.min { $0.text < $1.text } }) {
      let open = state.withLock { $0.takeOpen(name) }
      if let open {
        await close(name, open, isShutdown: true)
      } else {
        await waitForChange(of: name)
      }
    }
  }
}

extension Namespaces.State {
  /// Begins to close the open namespace that nothing has used for the longest time; nil if there is none.
  ///
  /// - Parameter time: the time before which its last use must have ended.
  fileprivate mutating func takeIdle(
    before time: Int64
  ) -> (name: NamespaceName, namespace: OpenNamespace)? {
    let found = leastUsed { $1.leases == 0 && $1.idleSince < time }
    guard let found, let namespace = takeOpen(found) else { return nil }
    return (found, namespace)
  }

  /// Begins to close an idle namespace, so that another one can be opened in its place. Returns nil if no namespace may be
  /// closed.
  ///
  /// - Parameter network: a network that has its places. Its own namespaces are closed first, and of the others none that
  ///   was used a moment ago.
  fileprivate mutating func takeIdle(
    for network: String?, at now: Int64
  ) -> (name: NamespaceName, namespace: OpenNamespace)? {
    guard let network else { return takeIdle(before: .max) }
    let own = leastUsed { $1.leases == 0 && $1.network == network }
    let found = own ?? leastUsed { $1.leases == 0 && !$1.wasJustUsed(at: now) }
    guard let found, let namespace = takeOpen(found) else { return nil }
    return (found, namespace)
  }

  /// Returns the open namespace with the earliest last use of those that match and that no work keeps open; nil if there
  /// is none.
  fileprivate func leastUsed(
    where matches: (NamespaceName, Namespaces.Entry) -> Bool
  ) -> NamespaceName? {
    var found: (name: NamespaceName, lastEnd: Int)?
    for (name, entry) in entries {
      guard case .open(let namespace) = entry.phase, entry.lastEnd < found?.lastEnd ?? .max,
        matches(name, entry), namespace.operations.isIdle
      else { continue }
      found = (name, entry.lastEnd)
    }
    return found?.name
  }

  /// Begins to close a namespace, although it may be in use; nil if it is not open.
  fileprivate mutating func takeOpen(_ name: NamespaceName) -> OpenNamespace? {
    guard case .open(let namespace)? = entries[name]?.phase else { return nil }
    entries[name]?.phase = .closing
    return namespace
  }
}

/// The use of a namespace by a request or a connection. The namespace stays open until `release`, or until the lease
/// is gone.
public final class NamespaceLease: Sendable {
  /// The operations on the namespace.
  public let operations: Operations
  private let whenReleased: Mutex<(@Sendable () -> Void)?>

  init(_ operations: Operations, whenReleased: (@Sendable () -> Void)?) {
    self.operations = operations
    self.whenReleased = Mutex(whenReleased)
  }

  deinit {
    release()
  }

  /// Ends the use. Later calls do nothing.
  public func release() {
    whenReleased.withLock { $0.take() }?()
  }
}
