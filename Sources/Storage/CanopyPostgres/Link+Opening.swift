#if PostgreSQL
  internal import CLibpq
  #if canImport(Glibc)
    internal import Glibc
  #elseif canImport(Musl)
    internal import Musl
  #endif

  /// Connecting, and the settings of the session.
  extension Link {
    /// Opens a connection, which is not in pipeline mode yet.
    static func connect(_ settings: Settings) throws(PostgresError) -> OpaquePointer {
      // The URL replaces the parameters before `dbname`, which are defaults.
      let words: [(String, String)] = [
        ("connect_timeout", "5"), ("tcp_user_timeout", "10000"), ("keepalives", "1"),
        ("keepalives_idle", "5"), ("keepalives_interval", "2"), ("keepalives_count", "3"),
        ("target_session_attrs", "read-write"), ("application_name", "canopy"),
        ("dbname", settings.url), ("client_encoding", "UTF8"),
      ]
      var keywords = words.map { UnsafePointer(strdup($0.0)) } + [nil]
      var values = words.map { UnsafePointer(strdup($0.1)) } + [nil]
      defer {
        for pointer in keywords + values { free(UnsafeMutableRawPointer(mutating: pointer)) }
      }
      guard let connection = PQconnectdbParams(&keywords, &values, 1) else {
        throw .unreachable("there is no memory for a connection")
      }
      guard PQstatus(connection) == CONNECTION_OK else {
        let reason = message(connection)
        PQfinish(connection)
        throw .unreachable(reason)
      }
      return connection
    }

    /// Sets the bounds of the session, and checks the durability of the server.
    ///
    /// The keepalives let the server notice within about 11 s that the client is gone. Otherwise a transaction that has not
    /// received its end would keep its locks for hours, and all nodes would wait.
    func setUp() throws(PostgresError) {
      guard PQserverVersion(connection) >= Link.versionMin else {
        throw .unsuitable("the server is older than PostgreSQL 14: use a newer one")
      }
      let milliseconds = Int64(max(1, min(settings.replySeconds * 1_000, 1e9)))
      let rows: [Rows]
      do {
        rows = try run([
          Query(
            """
            SELECT set_config('statement_timeout', $1::bigint::text, false),
              set_config('lock_timeout', $1::bigint::text, false),
              set_config('idle_in_transaction_session_timeout', ($1 * 3)::text, false),
              set_config('client_min_messages', 'warning', false),
              set_config('tcp_keepalives_idle', '5', false),
              set_config('tcp_keepalives_interval', '2', false),
              set_config('tcp_keepalives_count', '3', false),
              set_config('tcp_user_timeout', '10000', false),
              set_config('client_connection_check_interval', '2000', false)
            """, isPrepared: false, .int(milliseconds)),
          Query(
            """
            SELECT convert_to(current_setting('synchronous_commit'), 'UTF8'),
              convert_to(current_setting('fsync'), 'UTF8')
            """, isPrepared: false),
        ])
      } catch PostgresError.connectionLost(let reason) {
        throw .unreachable(reason)
      }
      let (commit, sync) = (try rows[1].text(0, 0), try rows[1].text(0, 1))
      guard ["on", "remote_apply"].contains(where: { $0.utf8.elementsEqual(commit.utf8) }) else {
        throw .unsuitable(
          "synchronous_commit is \(commit) on the server, so it may lose commits that it has confirmed: set it to on "
            + "or remote_apply for the user or the database of the URL")
      }
      guard sync.utf8.elementsEqual("on".utf8) else {
        throw .unsuitable(
          "fsync is \(sync) on the server, so a power failure may lose all data: set it to on")
      }
    }

    private static let versionMin: Int32 = 140_000
  }
#endif
