public import Logging

/// What a database may be told besides where its server is. Canopy's own addition.
public struct DatabaseOptions: Sendable {
  /// Time and randomness.
  public var environment = ClientEnvironment.live
  /// How long to wait before each attempt to connect again.
  public var backoff = Backoff()
  /// Milliseconds after which an attempt to connect has failed.
  public var connectMilliseconds: Int64 = 10_000
  /// Milliseconds of silence after which the server is asked for a sign of life; when it gives none for
  /// as long again, the connection is given up.
  public var keepaliveMilliseconds: Int64 = 15_000
  /// Milliseconds that a login or `getData` waits for a connection.
  public var requestMilliseconds: Int64 = 10_000
  /// A file of PEM certificates to trust in place of the system's, for `canopys://`; the environment
  /// variable `CANOPY_CA_FILE` where this is nil.
  public var trustedCertificatesFile: String?
  /// The folder in which persistence keeps what it keeps, a folder for each server in it; the environment
  /// variable `CANOPY_CLIENT_DATA` where this is nil, and `.canopy-client` in the user's home without that.
  public var persistenceFolder: String?
  /// Where failures go that no function of the application is told of.
  public var logger = Logger(label: "canopy.client")

  /// The defaults.
  public init() {}
}
