internal import Logging
internal import Synchronization

/// The options of an app: for this library, the URL and the options of its databases.
public final class FirebaseOptions: Sendable {
  private let values: Mutex<Values>

  private struct Values {
    var databaseURL: String?
    var databaseOptions = DatabaseOptions()
  }

  /// The URL of the database; nil for that of `Database.database()`.
  public var databaseURL: String? {
    get { values.withLock { $0.databaseURL } }
    set { values.withLock { $0.databaseURL = newValue } }
  }

  /// The options of the databases of the app. A database keeps those of its first use. Canopy's own addition.
  public var databaseOptions: DatabaseOptions {
    get { values.withLock { $0.databaseOptions } }
    set { values.withLock { $0.databaseOptions = newValue } }
  }

  /// Creates options.
  public init(databaseURL: String? = nil) {
    values = Mutex(Values(databaseURL: databaseURL))
  }

  /// Creates options. The arguments have no meaning for a Canopy server; code for Firebase passes them.
  public convenience init(googleAppID: String, gcmSenderID: String) {
    self.init()
  }
}

/// A name for databases with connections and sessions of their own, so that one process can be signed
/// in as several users. Needed only for that: `Database.database()` and `Auth.auth()` work without
/// `configure()`.
public final class FirebaseApp: Sendable {
  /// The name.
  public let name: String
  /// The options.
  public let options: FirebaseOptions
  private let databases = Mutex(Databases())

  private struct Databases {
    var byEndpoint: [Endpoint: Database] = [:]
    var isDeleted = false
  }

  private static let nameDefault = "__FIRAPP_DEFAULT"
  private static let apps = Mutex<[String: FirebaseApp]>([:])

  private init(_ name: String, _ options: FirebaseOptions) {
    self.name = name
    self.options = options
  }

  /// Creates the default app, unless it exists.
  public static func configure() {
    configure(options: FirebaseOptions())
  }

  /// Creates the default app, unless it exists.
  public static func configure(options: FirebaseOptions) {
    configure(name: nameDefault, options: options)
  }

  /// Creates an app, unless one with the name exists.
  ///
  /// - Parameter name: letters, digits, `_` and `-` of ASCII. Any other name is logged and creates no app.
  public static func configure(name: String, options: FirebaseOptions) {
    guard !name.isEmpty, name.utf8.allSatisfy(isAllowedInName) else {
      options.databaseOptions.logger.error(
        "an app is not created: its name must have letters, digits, _ and - of ASCII, at least one",
        metadata: ["name": "\(name)"])
      return
    }
    apps.withLock { apps in
      if apps[name] == nil { apps[name] = FirebaseApp(name, options) }
    }
  }

  private static func isAllowedInName(_ byte: UInt8) -> Bool {
    switch byte {
    case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
      UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "_"), UInt8(ascii: "-"):
      true
    default: false
    }
  }

  /// Returns the default app; nil before `configure()`.
  public static func app() -> FirebaseApp? { app(name: nameDefault) }

  /// Returns an app; nil if there is none with the name.
  public static func app(name: String) -> FirebaseApp? { apps.withLock { $0[name] } }

  /// All apps by name; nil if there are none.
  public static var allApps: [String: FirebaseApp]? {
    apps.withLock { $0.isEmpty ? nil : $0 }
  }

  /// Whether this is the app of `Database.database()`.
  var isDefault: Bool { name == Self.nameDefault }

  /// Deletes the app, and ends its databases: each connection is closed, and every operation that has not
  /// finished fails with the code `DatabaseError.Code.appDeleted`, as do all later ones. Observers end with
  /// the same error. The databases of the default app are those of `Database.database()` and
  /// `database(url:)`; these functions return new ones afterwards.
  ///
  /// The server may have made a write that fails so. With persistence, the pending writes stay recorded, and a new
  /// database for the same server sends them.
  ///
  /// - Returns: whether the app existed.
  @discardableResult
  public func delete() async -> Bool {
    let isKnown = Self.apps.withLock { apps in
      guard apps[name] === self else { return false }
      apps[name] = nil
      return true
    }
    var ended = databases.withLock { databases in
      defer { databases = Databases(isDeleted: true) }
      return Array(databases.byEndpoint.values)
    }
    if isKnown, isDefault { ended += Database.takeShared() }
    for database in ended { await database.end(Self.deletion) }
    return isKnown
  }

  private static let deletion = DatabaseError(
    .appDeleted, "the app of this database was deleted; get a database from another app")

  /// Returns the database of this app on a server.
  fileprivate func database(_ endpoint: Endpoint) -> Database {
    databases.withLock { databases in
      if databases.isDeleted { return Database(endpoint, Self.deletion, DatabaseOptions()) }
      if isDefault { return Database.sharedDatabase(endpoint) }
      if let database = databases.byEndpoint[endpoint] { return database }
      let database = Database(endpoint, nil, options.databaseOptions)
      databases.byEndpoint[endpoint] = database
      return database
    }
  }

  /// Whether a database belongs to this named app.
  fileprivate func owns(_ database: Database) -> Bool {
    databases.withLock { $0.byEndpoint.values.contains { $0 === database } }
  }

  /// Deletes the app, and ends its databases.
  ///
  /// - Parameter completion: receives whether the app existed, on no particular actor unless the
  ///   function belongs to one.
  public func delete(
    @_inheritActorContext _ completion: @escaping @Sendable @isolated(any) (Bool) -> Void
  ) {
    Task { await completion(await delete()) }
  }
}

extension Database {
  /// Returns the database of an app. Always the same object for one app.
  public static func database(app: FirebaseApp) -> Database {
    database(app: app, url: app.options.databaseURL ?? urlDefault)
  }

  /// Returns the database of an app on a server: `canopy://host:port`, or `canopys://host:port` with
  /// TLS. Always the same object for one app and server. Databases of different apps have connections
  /// and sessions of their own.
  public static func database(app: FirebaseApp, url: String) -> Database {
    guard let endpoint = try? Endpoint.server(url) else { return database(url: url) }
    return app.database(endpoint)
  }

  /// The app to which the database belongs; nil for a database without one.
  public var app: FirebaseApp? {
    if let named = FirebaseApp.allApps?.values.first(where: { $0.owns(self) }) { return named }
    return Self.allShared.contains { $0 === self } ? FirebaseApp.app() : nil
  }

  /// Uses a server for tests, without TLS, instead of that of the URL, with the same protocol and the same name of the
  /// database. Call it before any other use of the database. An invalid host or port is logged and changes nothing.
  public func useEmulator(withHost host: String, port: Int) {
    var endpoint = repository.endpoint.withoutTLS
    endpoint.host = host
    endpoint.port = port
    do throws(DatabaseError) {
      repository.setEndpoint(try Endpoint.server(endpoint.text + endpoint.querySuffix))
    } catch {
      repository.options.logger.error(
        "the server for tests cannot be used", metadata: ["error": "\(error)"])
    }
  }

  /// Returns the version of this library.
  public static func sdkVersion() -> String { "0.1.0" }
}

extension Auth {
  /// Returns the accounts of the server of an app's database.
  public static func auth(app: FirebaseApp) -> Auth { Auth(.database(app: app)) }

  /// Has no effect, because the server of the database has the accounts, too: use
  /// `Database.useEmulator(withHost:port:)`.
  public func useEmulator(withHost host: String, port: Int) {}
}

extension DatabaseReference {
  /// Takes all databases of `Database.database()` and `database(url:)` offline.
  public static func goOffline() {
    for database in Database.allShared { database.goOffline() }
  }

  /// Takes all databases of `Database.database()` and `database(url:)` online again.
  public static func goOnline() {
    for database in Database.allShared { database.goOnline() }
  }
}
