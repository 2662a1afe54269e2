/// All bounds on the data that clients send and on the resources that they make the server hold.
///
/// The static bounds belong to the data format and are the same everywhere. A server may lower the
/// others. Each has a test at the bound and one just past it.
public struct Limits: Sendable, Equatable {
  /// The largest key, in bytes of UTF-8.
  public static let keyBytesMax = 768

  /// The longest string of a query's bound, in bytes of UTF-8. A subscription keeps its query.
  public static let boundBytesMax = 1_024

  /// The most keys in a path, and levels below the root of the tree.
  public static let depthMax = 32

  /// The most writes of one client that the server remembers until the client acknowledges their
  /// replies.
  public static let clientWritesMax = 4_096

  /// The most writes of all clients together that the server remembers. A client of which it remembers only
  /// that its replies were seen counts as one. Beyond it, the server forgets the oldest writes of the owners
  /// that have the most.
  public static let rememberedWritesMax = 100_000

  /// The most bytes of the path of an update, times the number of its locations. The journal and the events have each
  /// location with its whole path.
  public static let updatePathBytesMax = 1024 * 1024

  /// The longest path of a leaf that a client writes, in bytes of UTF-8 with the slashes. The checkpoint has each leaf of
  /// a large branch with its whole path, so longer paths would take much more space and time than the data.
  public static let leafPathBytesMax = 4_096

  /// The bytes of the paths of all leaves of a write, for each byte of its data. The paths may always have
  /// `updatePathBytesMax` bytes.
  public static let leafPathBytesPerByte = 64

  /// The most server values of one write, in all of its values together. The writer looks up the location of each in
  /// the tree.
  public static let serverValuesMax = 1_000

  /// The most bytes of JSON of a value that contains server values. The text of such a value is known only when the write
  /// is made, so the writer encodes it, which takes milliseconds. Other locations of the same update may have larger values.
  public static let serverValueBytesMax = 512 * 1024

  /// The most locations of one commit: those of its write, and those that follow from it. A write under branches with
  /// priorities has their priorities too, and a write of a post has its copies. The journal has each location with its
  /// whole path.
  public static let commitLocationsMax = 65_536

  /// The most priorities of a commit that follow from its write, besides one for each location of the write. The server
  /// finds each of these branches, and applies and stores its priority, while all other writes wait.
  public static let commitPrioritiesMax = 8_192

  /// The most bytes of one commit in the journal, as JSON. More than the largest write, because of the locations that
  /// follow from a write, and because an array has its keys there.
  public static let commitBytesMax = 64 * 1024 * 1024

  /// The commits that the server reads for any client that resumes a subscription. A client that
  /// has missed more receives the whole state again, unless that costs more: see
  /// `resumedBytesPerCommit`.
  public static let resumedCommitsMin: Int64 = 1_000

  /// The size of a state, in bytes of JSON, that costs as much to send as one commit costs to read.
  /// Both take some microseconds.
  public static let resumedBytesPerCommit = 1_024

  /// The largest state that is measured, in bytes of JSON.
  public static let resumedSizeMax = 16 * 1024 * 1024

  /// The most commits that the server reads for a client that resumes, however large the state is.
  public static let resumedCommitsMax = Int64(resumedSizeMax / resumedBytesPerCommit)

  /// The most bytes of commits that the server reads for a client that resumes; a large state adds
  /// twice its own size.
  public static let resumedBytesMin = 8 * 1024 * 1024

  /// The most clients that resume at one time. Others wait.
  public static let resumptionsMax = 2

  /// Milliseconds by which the push id of a post or comment that a client makes may be older than its
  /// write: seven days. A client that is offline sends later what it made, and it must not be lost; the
  /// bound keeps small the number of ids that have to stay reserved after their posts were removed.
  public static let pushIDAgeMax: Int64 = 7 * 24 * 3_600 * 1_000

  /// Milliseconds by which such a push id may be ahead of the server's clock, as clocks differ. Later
  /// ids would stay the newest entries of a list until their time comes.
  public static let pushIDLeadMax: Int64 = 60_000

  /// The largest string, in bytes of UTF-8.
  public var stringBytesMax = 10 * 1024 * 1024

  /// The longest priority that is a string, in bytes of UTF-8. A commit has the priorities of all branches above the
  /// locations that it changes.
  public var priorityBytesMax = 256

  /// The largest write, in bytes of JSON.
  public var writeBytesMax = 16 * 1024 * 1024

  /// The most locations of one UPDATE of a client that is not the administrator. Each is applied and authorized by
  /// the only writer, while all other writes wait.
  public var updateLocationsMax = 2_048

  /// The most entries that one UPDATE of a client that is not the administrator may change: each of its locations is one,
  /// and is one more in each index of a branch above it. An entry takes about four microseconds of the only writer.
  public var updateEntriesMax = 4_096

  /// The most locations of one UPDATE of the administrator. The server refuses more while it decodes the line, before
  /// they take memory.
  public var administratorLocationsMax = 16_384

  /// The longest line of the line protocol, in bytes without its terminator.
  public var lineBytesMax = 1024 * 1024

  /// The most requests of one connection that await a reply. The server reads no more until it has
  /// answered some.
  public var outstandingRequestsMax = 1024

  /// The most memory for the unanswered requests of one connection, in bytes. The server reads no
  /// more until it has answered some. A single request may exceed the bound.
  public var requestBytesMax = 4 * 1024 * 1024

  /// The most bytes of unread replies before the server stops reading from a connection.
  public var unreadReplyBytesMax = 1024 * 1024

  /// The approximate bound on the size of one reply, in bytes of JSON. The server refuses larger
  /// ones.
  public var replyBytesMax = 16 * 1024 * 1024

  /// The most bytes of JSON of all children with which a subscription to children begins. Each of them is an event
  /// of its own, and `replyBytesMax` bounds each. So many times more than one reply, because everybody reads the
  /// lists of the blog, and 100 posts of the largest size must not end that.
  public var initialEventsBytesMax = 64 * 1024 * 1024

  /// The largest reply or event that is encoded in one go, in bytes of JSON. The server encodes a larger one in
  /// pieces, as the client reads it.
  public var wholeReplyBytesMax = 128 * 1024

  /// The most subscriptions of one connection at one time.
  public var listenersMax = 1_000

  /// The most different queries of one connection to one location. Each of them costs work when the
  /// location changes.
  public var queriesPerLocationMax = 100

  /// The most different subscriptions of all connections of one remote address: each pair of a location
  /// and a query counts once for each form of events. Connections from this machine are not counted.
  public var viewsPerAddressMax = 10_000

  /// The most bytes of events that wait for one connection, besides one event that may be larger.
  /// The server disconnects a connection that exceeds it.
  public var queuedBytesMax = 16 * 1024 * 1024

  /// The most on-disconnect writes of one connection.
  public var disconnectWritesMax = 100

  /// The most bytes of requests for the on-disconnect writes of one connection.
  public var disconnectBytesMax = 1024 * 1024

  /// The most locations that the on-disconnect writes of one connection write together. A new write is compared
  /// with all of them.
  public var disconnectLocationsMax = 4_096

  /// The most memory, in bytes, for all connections together, the tree excluded. Beyond it, the
  /// server closes the largest connection of the network that holds the most.
  public var memoryMax = 512 * 1024 * 1024

  /// The most connections at one time.
  public var connectionsMax = 20_000

  /// The most connections of one remote address at one time; of an IPv6 address, its first 64 bits.
  /// Connections from this machine count only towards the total: local programs and proxies may
  /// need many.
  public var connectionsPerAddressMax = 256

  /// The writes of one user in a second, on all of the user's connections together. As many as in `writeBurstSeconds`
  /// may come at once.
  public var writesPerSecond = 100

  /// The bytes of paths and values that one user writes in a second.
  public var writeBytesPerSecond = 256 * 1024

  /// The writes of one remote address in a second; of an IPv6 address, its first 64 bits. Clients on this machine are
  /// exempt: there may be many people behind them.
  public var writesPerSecondPerAddress = 1_000

  /// The bytes of paths and values that one remote address writes in a second.
  public var writeBytesPerSecondPerAddress = 2 * 1024 * 1024

  /// The seconds for which a user or an address that has not written for as long may save up writes and bytes.
  public var writeBurstSeconds = 20

  /// The bytes that the posts and comments of one user may take: see `UserStorage`.
  public var storageBytesMax = 64 * 1024 * 1024

  /// The most memory of all trees, in bytes; 0 for no bound. A server chooses it by the memory of its machine.
  public var treeMax = 0

  /// The bytes by which one remote address may make the trees larger in a day, and as many at once; 0 for no bound.
  public var treeBytesPerDayPerAddress = 0

  /// The free bytes of the disk below which the server makes no writes, except removals by the administrator.
  public var freeBytesMin = 256 * 1024 * 1024

  /// Creates the default limits.
  public init() {}

  /// Limits without bounds on sizes, for data that the server itself stored.
  public static var none: Limits {
    var limits = Limits()
    limits.stringBytesMax = .max
    limits.priorityBytesMax = .max
    limits.writeBytesMax = .max
    limits.administratorLocationsMax = .max
    return limits
  }

  func checkWrite(bytes: Int) throws(TreeError) {
    guard bytes <= writeBytesMax else {
      throw .tooLarge("one write may have at most \(writeBytesMax) bytes of JSON")
    }
  }
}
