#if PostgreSQL
  // CanopyPostgres owns the journal, the accounts and the on-disconnect writes of several nodes on one PostgreSQL. It
  // must not know the meaning of the tree, nor the connections of clients.

  /// An error of the store on PostgreSQL, with a sentence that says what to do.
  public enum PostgresError: Error, Sendable, Equatable, CustomStringConvertible {
    /// No server could be reached, or none of them accepts writes.
    case unreachable(String)
    /// The connection was lost, or the server did not reply in time. Nothing was changed.
    case connectionLost(String)
    /// The connection was lost while a change was committed. The outcome is unknown.
    case outcomeUnknown(String)
    /// The server refused a statement. Nothing was changed.
    case refused(sqlState: String, String)
    /// A setting of the server or of this store does not allow Canopy to keep its guarantees.
    case unsuitable(String)
    /// A newer program made the tables.
    case newerSchema(String)
    /// Stored data is damaged or missing.
    case damaged(String)
    /// Another process has started with the name of this node.
    case replaced(String)

    /// One sentence that says what is wrong and what to do.
    public var sentence: String {
      switch self {
      case .unreachable(let reason):
        "PostgreSQL cannot be reached (\(reason)): check the URL, and that the server runs and accepts writes"
      case .connectionLost(let reason):
        "the connection to PostgreSQL was lost (\(reason)); nothing was changed, so try again"
      case .outcomeUnknown(let reason):
        "the connection to PostgreSQL was lost during a commit (\(reason)): the change may have been made, "
          + "so read the data before you try again"
      case .refused(let state, let reason):
        "PostgreSQL refused a statement (SQLSTATE \(state): \(reason)): \(PostgresError.advice(state))"
      case .unsuitable(let text), .newerSchema(let text), .damaged(let text), .replaced(let text):
        text
      }
    }

    /// The sentence.
    public var description: String { sentence }

    private static func advice(_ state: String) -> String {
      switch state.utf8.prefix(2).map({ $0 }) {
      case Array("28".utf8): "check the user and the password in the URL"
      case Array("3D".utf8): "create the database that the URL names"
      case Array("40".utf8): "it collided with another transaction, so try again"
      case Array("42".utf8):
        "give the user of the URL the rights to create and change the schema canopy"
      case Array("53".utf8):
        "the server lacks memory, disk space or connections; make room for them"
      case Array("57".utf8): "the server is stopping or took too long; try again in a moment"
      default: "the log of the server has the details"
      }
    }

    /// Whether another attempt may succeed at once: nothing was changed, and the cause is over.
    var isRepeatable: Bool {
      switch self {
      case .connectionLost: true
      case .refused(let state, _): PostgresError.collisions.contains(state)
      default: false
      }
    }

    /// A serialization failure, and a deadlock.
    private static let collisions: Set<String> = ["40001", "40P01"]

    /// The state of a row that violates a unique index.
    static let uniqueViolation = "23505"

    /// Returns the error for a row whose checksum does not match.
    static func altered(_ name: String) -> PostgresError {
      .damaged("\(name) was altered in the database (the checksum does not match): \(waysOut)")
    }

    /// Returns the error for a missing commit.
    static func missing(commit sequence: Int64) -> PostgresError {
      .damaged("commit \(sequence) is missing from the journal in the database: \(waysOut)")
    }

    static let waysOut = "restore the database from a backup"
  }
#endif
