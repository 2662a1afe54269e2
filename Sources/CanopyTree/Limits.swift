/// Every bound on what a client may send or make the server hold, in one place.
///
/// The static numbers are the format's own and the same everywhere. The others are what a server may
/// lower. Each has a test at the bound and one just past it.
public struct Limits: Sendable, Equatable {
  /// Bytes of UTF-8 in a key.
  public static let keyBytesMax = 768

  /// Bytes of UTF-8 in the string of a query's bound. A subscription keeps its query.
  public static let boundBytesMax = 1_024

  /// Keys in a path, and levels below the root of the tree.
  public static let depthMax = 32

  /// Writes of one client that are remembered until it says that it has seen their answers.
  public static let clientWritesMax = 4_096

  /// Clients whose writes are remembered; of more, those that wrote longest ago are forgotten.
  public static let clientsMax = 100_000

  /// Commits that are read for any client that resumes listening. For one that has missed more, what
  /// it listens to is told anew, unless that is so large that it costs more: see `resumedCommitBytes`.
  public static let resumedCommitsMin: Int64 = 1_000

  /// Bytes of the present state, as JSON, that cost as much to tell as one commit costs to read: a
  /// commit takes some microseconds, and so do writing, sending and reading so much text.
  public static let resumedCommitBytes = 1_024

  /// Bytes of the present state beyond which it is not measured.
  public static let resumedSizeMax = 16 * 1024 * 1024

  /// Commits that are read for a client that resumes, however large the present state is.
  public static let resumedCommitsMax = Int64(resumedSizeMax / resumedCommitBytes)

  /// Bytes of commits after which no more are read for a client that resumes; for a large state, twice
  /// its size more.
  public static let resumedBytesMin = 8 * 1024 * 1024

  /// Clients that resume at one time; others wait for their turn.
  public static let resumptionsMax = 2

  /// Bytes of UTF-8 in one string.
  public var stringBytesMax = 10 * 1024 * 1024

  /// Bytes of JSON in one write.
  public var writeBytesMax = 16 * 1024 * 1024

  /// Bytes in one line of the line protocol, its end not counted.
  public var lineBytesMax = 1024 * 1024

  /// Requests of one connection that wait for their reply; further ones are not read until some
  /// have been answered.
  public var outstandingRequestsMax = 1024

  /// Bytes of memory that the requests of one connection without a reply may take, whether they wait or
  /// are under way; no more are read until some are answered. One request may exceed it.
  public var requestBytesMax = 4 * 1024 * 1024

  /// Bytes of replies that one connection may leave unread before nothing more is read from it.
  public var unreadReplyBytesMax = 1024 * 1024

  /// Bytes of JSON, or a little less, in one reply; what is larger is refused.
  public var replyBytesMax = 16 * 1024 * 1024

  /// Subscriptions of one connection at one time.
  public var listenersMax = 1_000

  /// Bytes of events that wait for one connection to take them, besides one event that may be larger;
  /// who has more is disconnected.
  public var queuedBytesMax = 16 * 1024 * 1024

  /// On-disconnect writes of one connection.
  public var disconnectWritesMax = 100

  /// Bytes of the requests of one connection's on-disconnect writes together.
  public var disconnectBytesMax = 1024 * 1024

  /// Locations that one connection's on-disconnect writes write together. A new write is compared with
  /// all of them.
  public var disconnectLocationsMax = 4_096

  /// Bytes of memory that all connections together may make the server hold, beyond the tree itself. When
  /// there are more, the connection that holds the most is ended.
  public var memoryMax = 512 * 1024 * 1024

  /// Connections at one time.
  public var connectionsMax = 20_000

  /// Connections of one remote address at one time, IPv6 by its first 64 bits. Those from this
  /// machine count for the bound on all only: local programs and proxies may have many.
  public var connectionsPerAddressMax = 256

  /// The defaults.
  public init() {}

  /// No bounds on sizes: for what the server itself has stored.
  public static var none: Limits {
    var limits = Limits()
    limits.stringBytesMax = .max
    limits.writeBytesMax = .max
    return limits
  }

  func checkWrite(bytes: Int) throws(TreeError) {
    guard bytes <= writeBytesMax else {
      throw .tooLarge("one write may have at most \(writeBytesMax) bytes of JSON")
    }
  }
}
