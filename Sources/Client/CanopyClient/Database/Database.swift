internal import CanopyTree
public import Dispatch
public import Logging
internal import Synchronization

// Code for Firebase's library gets Foundation with it: `NSDictionary`, `IndexPath` and
// `localizedDescription` need no import of their own.
@_exported public import Foundation

/// A database on a Canopy server, with a local copy of the observed parts.
///
/// A write takes effect locally at once and is sent when there is a connection; the server's
/// changes arrive as events. The first use connects. The library reconnects by itself, and no write
/// is lost or applied twice.
///
/// Safe to use from any thread; no call waits for the network. The library calls observers and
/// completion functions one after the other, in the order of the events, on `callbackQueue`. A
/// database lives as long as it, a reference into it or an observer is referenced. After that its
/// connection stays until the server has answered all writes, transactions and on-disconnect
/// operations. After `goOffline()` it ends at once: then pending writes are lost, with a line in the
/// log, unless persistence keeps them for a later database.
public final class Database: Sendable {
  let repository: Repository
  /// The error of every operation, if the URL is invalid.
  let problem: DatabaseError?
  private let pushIDs: Mutex<PushIDGenerator>
  private let settings = Mutex(Settings())

  private struct Settings {
    var isPersistenceEnabled = false
    var persistenceCacheSizeBytes: UInt = 10 * 1024 * 1024
  }

  private static let shared = Mutex<[Endpoint: Database]>([:])

  // MARK: Databases

  /// Returns the database of the default `FirebaseApp` if its options have a URL, or else of the
  /// server in the environment variable `CANOPY_URL`, or of
  /// `canopy://127.0.0.1:7070`. Always the same object.
  public static func database() -> Database {
    database(url: FirebaseApp.app()?.options.databaseURL ?? urlDefault)
  }

  static var urlDefault: String {
    ProcessInfo.processInfo.environment["CANOPY_URL"] ?? "canopy://127.0.0.1:7070"
  }

  static var allShared: [Database] { shared.withLock { Array($0.values) } }

  /// Returns the database of a server that belongs to no named app. A new one has the options of the default app.
  static func sharedDatabase(_ endpoint: Endpoint) -> Database {
    shared.withLock { shared in
      if let database = shared[endpoint] { return database }
      let options = FirebaseApp.app()?.options.databaseOptions ?? DatabaseOptions()
      let database = Database(endpoint, nil, options)
      shared[endpoint] = database
      return database
    }
  }

  /// Removes and returns the databases that belong to no named app.
  static func takeShared() -> [Database] {
    shared.withLock { shared in
      defer { shared = [:] }
      return Array(shared.values)
    }
  }

  private static let loggingEnabled = Mutex(false)

  /// Sets whether databases that are used first after this call log more than warnings: for
  /// diagnosing problems.
  public static func setLoggingEnabled(_ enabled: Bool) {
    loggingEnabled.withLock { $0 = enabled }
  }

  /// The logger of new databases.
  fileprivate static var loggerDefault: Logger {
    var logger = Logger(label: "canopy.client")
    if loggingEnabled.withLock({ $0 }) { logger.logLevel = .trace }
    return logger
  }

  /// Returns the database of a server. Always the same object for one server.
  ///
  /// - `canopy://host:port`, or `canopys://host:port` with TLS: the line protocol; the default port is 7070.
  /// - `http://host:port?ns=NAME`, or `https://NAME.example.com` with TLS: a WebSocket of the HTTP port.
  ///
  /// If the URL is invalid, every operation fails with an error that says so.
  public static func database(url: String) -> Database {
    do throws(DatabaseError) {
      return sharedDatabase(try Endpoint.server(url))
    } catch {
      return Database(Endpoint(host: "", port: 0, usesTLS: false), error, DatabaseOptions())
    }
  }

  /// Creates a separate database with a connection of its own. Canopy's own addition.
  ///
  /// - Throws: `DatabaseError` with the code `invalidURL`.
  public convenience init(
    url: String, options: DatabaseOptions = DatabaseOptions()
  ) throws(DatabaseError) {
    self.init(try Endpoint.server(url), nil, options)
  }

  init(_ endpoint: Endpoint, _ problem: DatabaseError?, _ options: DatabaseOptions) {
    repository = Repository(endpoint, options)
    self.problem = problem
    pushIDs = Mutex(PushIDGenerator())
  }

  deinit {
    repository.use { [repository] state in state.databaseReleased(repository) }
  }

  // MARK: References

  /// Returns the root.
  public func reference() -> DatabaseReference {
    DatabaseReference(self, problem.map { .none($0) } ?? .tree(.root))
  }

  /// Returns the location at a path: keys separated by `/`.
  public func reference(withPath path: String) -> DatabaseReference {
    DatabaseReference(self, problem.map { .none($0) } ?? ReferenceTarget(path))
  }

  /// Returns the location of a URL, which must belong to this database's server. Its path is
  /// percent-encoded, with `+` for a space.
  public func reference(fromURL url: String) -> DatabaseReference {
    do throws(DatabaseError) {
      if let problem { throw problem }
      let (endpoint, path) = try Endpoint.parse(url)
      guard endpoint == repository.endpoint else {
        throw DatabaseError(
          .invalidURL, "the URL is of another server than \(repository.endpoint.text)")
      }
      return reference(withPath: try URLPath.decoded(path))
    } catch {
      return DatabaseReference(self, .none(error))
    }
  }

  // MARK: The connection

  /// Closes the connection, and stays offline until `goOnline()`. Writes and events continue
  /// locally.
  public func goOffline() {
    repository.use { $0.goOffline() }
  }

  /// Reconnects after `goOffline()` and sends the pending writes.
  public func goOnline() {
    guard problem == nil else { return }
    repository.use { $0.goOnline() }
  }

  /// Drops all writes and transactions that the server has not confirmed, as if it had refused
  /// them, and the on-disconnect operations that wait for a connection. With persistence, no later process sends
  /// them either.
  public func purgeOutstandingWrites() {
    repository.write { $0.purgeWrites() }
  }

  /// The queue of the application's functions: the main queue, unless the application sets another
  /// serial queue before it adds observers.
  ///
  /// Firebase uses the main queue too, and functions in a `@MainActor` type require it. It runs if
  /// the main thread runs `dispatchMain()`, a `RunLoop`, or Swift's asynchronous `main`. In any
  /// other program set a queue of your own, or no function is ever called. The `async` methods and
  /// sequences do not use the queue.
  public var callbackQueue: DispatchQueue {
    get { repository.callbacks.queue }
    set { repository.callbacks.queue = newValue }
  }

  // MARK: Persistence

  /// Whether observed data, unconfirmed writes and the session survive a restart of the process, in
  /// the folder `DatabaseOptions.persistenceFolder`. Set it before any other use of the database.
  /// Setting it blocks while the earlier state is read.
  ///
  /// A write is in a file when its call returns: it survives the end of the process from then on, also by a signal. For
  /// this the call waits for the operating system to take the write, which takes microseconds, but not for the disk. The
  /// write survives a loss of power once the disk has it, milliseconds later. A write that is made while a
  /// transaction's function runs is in the file when the function has returned.
  ///
  /// Only one process at a time can use a folder. If the folder cannot be used, the property stays
  /// false, and the log says why.
  public var isPersistenceEnabled: Bool {
    get { settings.withLock { $0.isPersistenceEnabled } }
    set {
      guard newValue, problem == nil else { return }
      let bytesMax = Int(clamping: persistenceCacheSizeBytes)
      let folder = persistenceFolder
      repository.useAndWait { [weak self] state in
        do {
          try state.enablePersistence(folder: folder, bytesMax: bytesMax)
          self?.settings.withLock { $0.isPersistenceEnabled = true }
        } catch {
          state.options.logger.error(
            "persistence cannot be used", metadata: ["error": "\(error)"])
        }
      }
    }
  }

  /// The bytes of data to keep beyond the data in use or kept synchronized: 1 MiB to 100 MiB, at first
  /// 10 MiB. Set it before persistence is enabled. Any other change is logged and has no effect.
  public var persistenceCacheSizeBytes: UInt {
    get { settings.withLock { $0.persistenceCacheSizeBytes } }
    set {
      let isChanged = settings.withLock { settings in
        let isAllowed = !settings.isPersistenceEnabled && (1 << 20...100 << 20).contains(newValue)
        if isAllowed { settings.persistenceCacheSizeBytes = newValue }
        return isAllowed
      }
      if !isChanged {
        repository.options.logger.error(
          "the size of the cache must be 1 MiB to 100 MiB, and set before persistence is enabled",
          metadata: ["bytes": "\(newValue)"])
      }
    }
  }

  private var persistenceFolder: String {
    let environment = ProcessInfo.processInfo.environment
    return repository.options.persistenceFolder ?? environment["CANOPY_CLIENT_DATA"]
      ?? NSHomeDirectory() + "/.canopy-client"
  }

  // MARK: Keys

  /// Returns a new key that sorts after all earlier keys of this database and, up to clock
  /// differences, of other clients.
  func nextKey() -> Key {
    pushIDs.withLock {
      $0.next(at: repository.serverClock.now, random: repository.options.environment.random)
    }
  }
}

/// The options of a database. Canopy's own addition.
public struct DatabaseOptions: Sendable {
  /// The time, randomness and timers.
  public var environment = ClientEnvironment.live
  /// The delays before attempts to reconnect.
  public var backoff = Backoff()
  /// The timeout of an attempt to connect, in milliseconds.
  public var connectMilliseconds: Int64 = 10_000
  /// The silence, in milliseconds, after which the client sends a PING. If the server stays silent
  /// as long again, the client drops the connection.
  public var keepaliveMilliseconds: Int64 = 15_000
  /// The time that a login or `getData` waits for a connection, in milliseconds.
  public var requestMilliseconds: Int64 = 10_000
  /// A PEM file of trusted certificates for `canopys://`, instead of the system's. If nil, the
  /// environment variable `CANOPY_CA_FILE`.
  public var trustedCertificatesFile: String?
  /// The folder of persistence, with a subfolder for each server. If nil, the environment variable
  /// `CANOPY_CLIENT_DATA`, or else `.canopy-client` in the user's home.
  public var persistenceFolder: String?
  /// The logger for failures that no function of the application receives.
  public var logger = Database.loggerDefault

  /// Creates the default options.
  public init() {}
}
