#if PostgreSQL
  internal import CanopyEngine
  internal import CanopySystem
  internal import Synchronization

  /// A thread with a connection. The lane connects at its first use, and again after the connection was lost.
  ///
  /// `@unchecked Sendable`: only the thread of `executor` uses the variables.
  final class Lane: @unchecked Sendable {
    private let executor: ThreadExecutor
    private let settings: Link.Settings
    private let connected: @Sendable (Link) throws -> Void
    private var link: Link?
    /// Whether an open transaction stays open between two uses: see `PostgresStore.takeTurn`.
    private var keepsTransaction = false

    /// Starts the thread.
    ///
    /// - Parameter connected: called with each new connection before its first use.
    init(
      _ settings: Link.Settings, connected: @escaping @Sendable (Link) throws -> Void
    ) throws(ThreadError) {
      executor = try ThreadExecutor()
      self.settings = settings
      self.connected = connected
    }

    /// Runs `body` on the thread. Cancelling the task does not end it.
    ///
    /// If it leaves a transaction open, the transaction is rolled back.
    ///
    /// - Parameter attempts: the number of times that it may run, if an attempt fails without a change.
    func run<R: Sendable>(
      attempts: Int = 1, _ body: @escaping @Sendable (Link) throws -> R
    ) async throws -> R {
      try await withTaskExecutorPreference(executor) { try await attempt(attempts, body) }
    }

    /// Begins a transaction that stays open while later uses succeed, until `endTransaction`.
    func beginTransaction(_ queries: [Query]) async throws {
      try await run { [self] link in
        _ = try link.begin(queries)
        keepsTransaction = true
      }
    }

    /// Rolls an open transaction back.
    func endTransaction() async throws {
      try await run { [self] _ in keepsTransaction = false }
    }

    /// Closes the connection.
    func close() async {
      await withTaskExecutorPreference(executor) { await end() }
    }

    private func end() async {
      assert(executor.isCurrent, "only the thread of the lane uses the connection")
      link = nil
    }

    private func attempt<R>(_ attempts: Int, _ body: (Link) throws -> R) async throws -> R {
      var left = attempts
      while true {
        left -= 1
        do {
          return try once(body)
        } catch let error as PostgresError where left > 0 && error.isRepeatable {
          continue
        }
      }
    }

    private func once<R>(_ body: (Link) throws -> R) throws -> R {
      assert(executor.isCurrent, "only the thread of the lane uses the connection")
      let link = try usable()
      var hasSucceeded = false
      defer {
        // The transaction may have ended, with its changes or without.
        keepsTransaction = keepsTransaction && hasSucceeded && link.isInTransaction
        if !keepsTransaction {
          do { try link.rollBack() } catch { self.link = nil }
        }
        if link.isBroken { self.link = nil }
      }
      let result = try body(link)
      hasSucceeded = true
      return result
    }

    private func usable() throws -> Link {
      if let link, !link.isClosed { return link }
      keepsTransaction = false
      self.link = nil
      let new = try Link(settings)
      try connected(new)
      link = new
      return new
    }
  }

  /// A few lanes for work that comes from many tasks.
  final class Lanes: Sendable {
    private let turns: TurnQueue
    private let free = Mutex<[Lane]>([])
    private let make: @Sendable () throws -> Lane

    /// Creates lanes, which begin when they are needed.
    init(width: Int, _ make: @escaping @Sendable () throws -> Lane) {
      turns = TurnQueue(width: width)
      self.make = make
    }

    /// Runs `body` on a free lane, when it is the caller's turn.
    func run<R: Sendable>(
      attempts: Int = 2, _ body: @escaping @Sendable (Link) throws -> R
    ) async throws -> R {
      try await turns.withTurn {
        let lane = try free.withLock { $0.popLast() } ?? make()
        defer { free.withLock { $0.append(lane) } }
        return try await lane.run(attempts: attempts, body)
      }
    }

    /// Closes the connections that are not in use.
    func close() async {
      for lane in free.withLock({ lanes in
        defer { lanes = [] }
        return lanes
      }) { await lane.close() }
    }
  }
#endif
