public import Dispatch
internal import CanopyTree
internal import Logging
internal import Synchronization

/// A database on a Canopy server, and this program's copy of those parts of it that are observed.
///
/// Writes are seen here at once and reach the server when there is a connection; what the server says
/// reaches observers as events. The first use connects; a connection that is lost is made again by
/// itself, and nothing that was written is lost or written twice.
///
/// Safe to use from any thread; no call waits for the network. Observers' and completion functions are
/// called one after the other, in the order of what happened, on `callbackQueue`. A database lives as
/// long as somebody holds it, a reference into it or an observer.
public final class Database: Sendable {
  let repository: Repository
  /// Why there is no server; nil where there may be one.
  let problem: DatabaseError?
  private let pushIDs: Mutex<PushIDGenerator>
  private let settings = Mutex(Settings())

  private struct Settings {
    var isPersistenceEnabled = false
    var persistenceCacheSizeBytes: UInt = 10 * 1024 * 1024
  }

  private static let shared = Mutex<[Endpoint: Database]>([:])

  // MARK: Which database

  /// The database of the server that the environment variable `CANOPY_URL` names, or of
  /// `canopy://127.0.0.1:7070`. Always the same object.
  public static func database() -> Database {
    database(url: ProcessInfo.processInfo.environment["CANOPY_URL"] ?? "canopy://127.0.0.1:7070")
  }

  /// The database of a server: `canopy://host:port`, or `canopys://host:port` with TLS; the port is 7070
  /// if none is given. For one server always the same object.
  ///
  /// Where the URL is none, every operation of what this returns fails with an error that says so.
  public static func database(url: String) -> Database {
    do throws(DatabaseError) {
      let endpoint = try Endpoint.server(url)
      return shared.withLock { shared in
        if let database = shared[endpoint] { return database }
        let database = Database(endpoint, nil, DatabaseOptions())
        shared[endpoint] = database
        return database
      }
    } catch {
      return Database(Endpoint(host: "", port: 0, usesTLS: false), error, DatabaseOptions())
    }
  }

  /// A database of its own, with a connection of its own, whatever others there are of the server.
  /// Canopy's own addition.
  ///
  /// - Throws: `DatabaseError` of the code `invalidURL`.
  public convenience init(
    url: String, options: DatabaseOptions = DatabaseOptions()
  ) throws(DatabaseError) {
    self.init(try Endpoint.server(url), nil, options)
  }

  private init(_ endpoint: Endpoint, _ problem: DatabaseError?, _ options: DatabaseOptions) {
    repository = Repository(endpoint, options)
    self.problem = problem
    pushIDs = Mutex(PushIDGenerator())
  }

  deinit {
    repository.use { $0.goOffline() }
  }

  // MARK: References

  /// The root.
  public func reference() -> DatabaseReference {
    DatabaseReference(self, problem.map { .none($0) } ?? .tree(.root))
  }

  /// A location by its path: keys separated by `/`.
  public func reference(withPath path: String) -> DatabaseReference {
    DatabaseReference(self, problem.map { .none($0) } ?? Place(path))
  }

  /// A location by its URL, which must be of this database's server.
  public func reference(fromURL url: String) -> DatabaseReference {
    do throws(DatabaseError) {
      if let problem { throw problem }
      let (endpoint, path) = try Endpoint.parse(url)
      guard endpoint == repository.endpoint else {
        throw DatabaseError(
          .invalidURL, "the URL is of another server than \(repository.endpoint.text)")
      }
      return reference(withPath: path.removingPercentEncoding ?? path)
    } catch {
      return DatabaseReference(self, .none(error))
    }
  }

  // MARK: The connection

  /// Ends the connection, and makes none until `goOnline()`. Writes and events go on locally.
  public func goOffline() {
    repository.use { $0.goOffline() }
  }

  /// Connects again after `goOffline()`; what was written meanwhile is sent.
  public func goOnline() {
    guard problem == nil else { return }
    repository.use { $0.goOnline() }
  }

  /// Drops all writes and transactions that the server has not confirmed, as if it had refused them.
  public func purgeOutstandingWrites() {
    repository.use { $0.purgeWrites() }
  }

  /// Where functions of the application are called: the main queue, unless another serial queue is set
  /// here, which must be done before observers are added.
  ///
  /// The main queue is that of the original, and the one on which functions written in a `@MainActor`
  /// type may run. It is served where the main thread runs `dispatchMain()`, a `RunLoop`, or Swift's own
  /// asynchronous `main`. In a program whose main thread does something else, no function would ever be
  /// called there: set a queue of your own. The `async` forms and sequences do not depend on it.
  public var callbackQueue: DispatchQueue {
    get { repository.callbacks.queue }
    set { repository.callbacks.queue = newValue }
  }

  // MARK: Persistence

  /// Whether what is observed, what is written and not confirmed, and who is signed in survive a restart of
  /// the process, in the folder that `DatabaseOptions.persistenceFolder` says. To be set before anything
  /// else is done with the database, which blocks while what an earlier process left is read.
  ///
  /// One process at a time can use a folder. Where it cannot be used, this stays false, and the log says why.
  public var isPersistenceEnabled: Bool {
    get { settings.withLock { $0.isPersistenceEnabled } }
    set {
      guard newValue, problem == nil else { return }
      let bytesMax = Int(clamping: persistenceCacheSizeBytes)
      let folder = persistenceFolder
      repository.use { [weak self] state in
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

  /// Bytes of data that are kept beyond what is in use or kept synchronised; to be set before persistence is
  /// enabled.
  public var persistenceCacheSizeBytes: UInt {
    get { settings.withLock { $0.persistenceCacheSizeBytes } }
    set { settings.withLock { $0.persistenceCacheSizeBytes = newValue } }
  }

  private var persistenceFolder: String {
    let environment = ProcessInfo.processInfo.environment
    return repository.options.persistenceFolder ?? environment["CANOPY_CLIENT_DATA"]
      ?? NSHomeDirectory() + "/.canopy-client"
  }

  // MARK: Keys

  /// A new key that sorts after all that were made before, here and, but for the clocks, elsewhere.
  func nextKey() -> Key {
    pushIDs.withLock {
      $0.next(at: repository.serverClock.now, random: repository.options.environment.random)
    }
  }
}
