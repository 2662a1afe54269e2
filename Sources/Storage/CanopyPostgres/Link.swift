#if PostgreSQL
  internal import CLibpq
  internal import CanopySystem
  #if canImport(Glibc)
    internal import Glibc
  #elseif canImport(Musl)
    internal import Musl
  #endif

  /// A connection to PostgreSQL, in pipeline mode. Blocks the thread that it belongs to.
  ///
  /// Each call of `run` is one round trip, however many queries it has. Every wait ends at a bound: then the connection is
  /// broken, and the caller makes a new one.
  final class Link {
    /// The settings of a connection.
    struct Settings: Sendable {
      /// The URL or the parameters, as libpq takes them.
      var url: String
      /// The longest silence of the server during a query, in seconds.
      var replySeconds: Double
      /// Returns the seconds since some fixed moment. It never goes back.
      var uptime: @Sendable () -> Double
    }

    /// The result that the server sends next.
    private enum Expected {
      case prepared(String, name: String)
      case rows(isCommit: Bool)
    }

    let connection: OpaquePointer
    let settings: Settings
    private let notices = Notices()
    /// The names of the prepared statements.
    private var names: [String: String] = [:]
    /// The number of times that queries were sent.
    private(set) var roundTrips = 0
    /// Whether the connection cannot be used any more.
    private(set) var isBroken = false

    /// Connects, and checks that the server can keep what it has confirmed.
    ///
    /// - Throws: `PostgresError.unreachable` or `PostgresError.unsuitable`.
    init(_ settings: Settings) throws(PostgresError) {
      self.settings = settings
      connection = try Link.connect(settings)
      PQsetNoticeReceiver(
        connection, Notices.receiver, Unmanaged.passUnretained(notices).toOpaque())
      guard PQsetnonblocking(connection, 1) == 0, PQenterPipelineMode(connection) == 1 else {
        isBroken = true
        throw .unreachable(Link.message(connection))
      }
      try setUp()
    }

    deinit {
      PQfinish(connection)
    }

    /// Returns the last error of a connection as one line.
    static func message(_ connection: OpaquePointer) -> String {
      guard let text = PQerrorMessage(connection) else { return "no details" }
      let lines = String(cString: text).utf8.split(separator: UInt8(ascii: "\n"))
        .map { String(decoding: $0, as: UTF8.self) }
      return lines.isEmpty ? "no details" : lines.joined(separator: "; ")
    }

    /// Whether the server has closed the connection while it was not used. Costs one system call.
    var isClosed: Bool {
      var descriptor = pollfd(fd: PQsocket(connection), events: Int16(POLLIN), revents: 0)
      guard !isBroken, descriptor.fd >= 0 else { return true }
      // The reason of the server comes before the end of the connection.
      for _ in 0..<10 {
        guard poll(&descriptor, 1, 0) > 0 else { return false }
        if PQconsumeInput(connection) == 0 || PQstatus(connection) != CONNECTION_OK { return true }
      }
      return false
    }

    /// Whether a transaction is open.
    var isInTransaction: Bool { PQtransactionStatus(connection) != PQTRANS_IDLE }

    /// Ends an open transaction without its changes.
    func rollBack() throws(PostgresError) {
      guard !isBroken, isInTransaction else { return }
      _ = try run([.rollBack])
    }
  }

  /// Running queries.
  extension Link {
    /// Runs queries in one round trip. If a query fails, the later ones do not run.
    ///
    /// - Returns: the rows of each query.
    /// - Throws: `PostgresError.outcomeUnknown` if the connection was lost and one of the queries is a commit.
    func run(_ queries: [Query]) throws(PostgresError) -> [Rows] {
      var expected: [Expected] = []
      roundTrips += 1
      for query in queries { try send(query, &expected) }
      guard PQpipelineSync(connection) == 1 else { throw lost() }
      return try results(of: expected)
    }

    /// Runs queries as one transaction, in one round trip.
    ///
    /// Continues the transaction that is open, if there is one.
    func commit(_ queries: [Query]) throws(PostgresError) -> [Rows] {
      if isInTransaction { return try finish(queries) }
      return Array(try run([.begin] + queries + [.commit]).dropFirst().dropLast())
    }

    /// Begins a transaction with some queries.
    func begin(_ queries: [Query]) throws(PostgresError) -> [Rows] {
      Array(try run([.begin] + queries).dropFirst())
    }

    /// Ends the open transaction with some queries.
    func finish(_ queries: [Query]) throws(PostgresError) -> [Rows] {
      Array(try run(queries + [.commit]).dropLast())
    }

    /// Runs a query whose rows may be many. Passes each row to `body` before it keeps the next one.
    ///
    /// - Throws: the error of `body`, after which the connection is broken.
    func forEachRow(_ query: Query, _ body: (Rows) throws -> Void) throws {
      var expected: [Expected] = []
      try send(query, &expected)
      guard PQpipelineSync(connection) == 1 else { throw lost() }
      var failure: PostgresError?
      var isRowMode = false
      var pauses = 0
      let expectedCount = expected.count
      var deadline = newDeadline()
      while true {
        if !isRowMode, case .rows? = expected.first {
          isRowMode = PQsetSingleRowMode(connection) == 1
        }
        guard let result = try next(before: deadline) else {
          pauses += 1
          guard pauses <= 2 * expectedCount + 8 else { throw lost() }
          continue
        }
        deadline = newDeadline()
        switch PQresultStatus(result) {
        case PGRES_PIPELINE_SYNC:
          PQclear(result)
          if let failure { throw failure }
          return
        case PGRES_SINGLE_TUPLE:
          do {
            try body(Rows(result))
          } catch {
            // The rest of the rows is not needed.
            isBroken = true
            throw error
          }
        default:
          if failure == nil {
            failure = try take(result, expected.first, isLastCommit: false).error
          }
          if !expected.isEmpty { expected.removeFirst() }
        }
      }
    }

    private func send(_ query: Query, _ expected: inout [Expected]) throws(PostgresError) {
      guard !isBroken else { throw .connectionLost("it is closed") }
      var isSent = true
      if query.isPrepared, names[query.sql] == nil {
        let name = "canopy_\(names.count)"
        names[query.sql] = name
        isSent = PQsendPrepare(connection, name, query.sql, 0, nil) == 1
        expected.append(.prepared(query.sql, name: name))
      }
      expected.append(.rows(isCommit: query.isCommit))
      isSent =
        isSent
        && query.parameters.withPointers { count, values, lengths, formats in
          if query.isPrepared, let name = names[query.sql] {
            return PQsendQueryPrepared(connection, name, count, values, lengths, formats, 1) == 1
          }
          return PQsendQueryParams(connection, query.sql, count, nil, values, lengths, formats, 1)
            == 1
        }
      if !isSent { throw lost() }
    }

    private func results(of expected: [Expected]) throws(PostgresError) -> [Rows] {
      var left = expected[...]
      var rows: [Rows] = []
      var failure: PostgresError?
      let hasCommit = expected.contains {
        if case .rows(isCommit: true) = $0 { true } else { false }
      }
      notices.warning = nil
      var pauses = 0
      let deadline = newDeadline()
      do throws(PostgresError) {
        while true {
          guard let result = try next(before: deadline) else {
            pauses += 1
            // The library would wait for ever for a result that the server does not send.
            guard pauses <= 2 * expected.count + 8 else { throw lost() }
            continue
          }
          if PQresultStatus(result) == PGRES_PIPELINE_SYNC {
            PQclear(result)
            break
          }
          let (found, error) = try take(result, left.popFirst(), isLastCommit: hasCommit)
          if let found { rows.append(found) }
          failure = failure ?? error
        }
      } catch {
        if hasCommit, case .connectionLost(let reason) = error { throw .outcomeUnknown(reason) }
        throw error
      }
      if let failure { throw failure }
      // The server has committed, but gave up waiting for its standby.
      if hasCommit, let warning = notices.warning { throw .outcomeUnknown(warning) }
      return rows
    }

    /// Takes one result of a query.
    ///
    /// - Throws: `PostgresError.connectionLost`.
    private func take(
      _ result: OpaquePointer, _ expected: Expected?, isLastCommit: Bool
    ) throws(PostgresError) -> (rows: Rows?, error: PostgresError?) {
      let rows = Rows(result)
      switch PQresultStatus(result) {
      case PGRES_COMMAND_OK, PGRES_TUPLES_OK:
        if case .rows? = expected { return (rows, nil) }
        return (nil, nil)
      case PGRES_PIPELINE_ABORTED:
        if case .prepared(let sql, _)? = expected { names[sql] = nil }
        return (nil, nil)
      default:
        if case .prepared(let sql, _)? = expected { names[sql] = nil }
        let reason = Link.field(result, PG_DIAG_MESSAGE_PRIMARY_CODE) ?? Link.message(connection)
        let severity = Link.field(result, PG_DIAG_SEVERITY_CODE) ?? ""
        guard severity.utf8.elementsEqual("ERROR".utf8), PQstatus(connection) == CONNECTION_OK
        else {
          // The server ends the connection, perhaps after it has committed.
          isBroken = true
          throw .connectionLost(reason)
        }
        let state = Link.field(result, PG_DIAG_SQLSTATE_CODE) ?? "?"
        return (nil, .refused(sqlState: state, reason))
      }
    }

    private static func field(_ result: OpaquePointer, _ code: Character) -> String? {
      guard let ascii = code.asciiValue else { return nil }
      return PQresultErrorField(result, Int32(ascii)).map { String(cString: $0) }
    }

    private func lost() -> PostgresError {
      isBroken = true
      return .connectionLost(Link.message(connection))
    }

    private func newDeadline() -> Double { settings.uptime() + settings.replySeconds }

    /// Returns the next result; nil between the results of two queries.
    private func next(before deadline: Double) throws(PostgresError) -> OpaquePointer? {
      while PQisBusy(connection) == 1 || PQflush(connection) == 1 {
        try wait(until: deadline)
      }
      if let result = PQgetResult(connection) { return result }
      if PQstatus(connection) != CONNECTION_OK { throw lost() }
      return nil
    }

    /// Waits until the server sends something, or takes more of the bytes to send.
    private func wait(until deadline: Double) throws(PostgresError) {
      let isUnsent = PQflush(connection)
      if isUnsent < 0 { throw lost() }
      let left = deadline - settings.uptime()
      guard left > 0 else {
        isBroken = true
        throw .connectionLost("the server has not replied for \(Int(settings.replySeconds)) s")
      }
      let events = isUnsent == 1 ? POLLIN | POLLOUT : POLLIN
      var descriptor = pollfd(fd: PQsocket(connection), events: Int16(events), revents: 0)
      _ = poll(&descriptor, 1, Int32(clamping: Int(min(left * 1_000, 1e6)) + 1))
      if PQconsumeInput(connection) == 0 { throw lost() }
    }
  }

  /// Notifications.
  extension Link {
    /// The socket, to wait for notifications.
    var socket: Int32 { PQsocket(connection) }

    /// Reads what the server has sent, and returns the texts of the notifications.
    func notifications() throws(PostgresError) -> [String] {
      guard !isBroken, PQconsumeInput(connection) == 1 else { throw lost() }
      var texts: [String] = []
      while let notification = PQnotifies(connection) {
        texts.append(String(cString: notification.pointee.extra))
        PQfreemem(notification)
      }
      return texts
    }
  }

  /// The last warning of the server during a query. The server sends one for a commit that did not wait for its
  /// standby.
  final class Notices {
    var warning: String?

    static let receiver: @convention(c) (UnsafeMutableRawPointer?, OpaquePointer?) -> Void = {
      context, result in
      guard let context, let result,
        let code = PQresultErrorField(result, 0x43), let text = PQresultErrorField(result, 0x4D)
      else { return }
      // The states of class 01 are warnings without an error.
      guard String(cString: code).utf8.elementsEqual("01000".utf8) else { return }
      Unmanaged<Notices>.fromOpaque(context).takeUnretainedValue().warning = String(cString: text)
    }
  }

  // The macros of libpq's header are characters in C, which Swift does not import.
  private let PG_DIAG_SEVERITY_CODE: Character = "V"
  private let PG_DIAG_SQLSTATE_CODE: Character = "C"
  private let PG_DIAG_MESSAGE_PRIMARY_CODE: Character = "M"
#endif
