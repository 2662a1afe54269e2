public import CanopyTree

/// A request of the administrator.
public enum AdministrationRequest: Sendable {
  /// Replaces the rules; nil stands for the built-in ones.
  case setRules(String?)
  /// Checks rules without putting them in force; nil stands for the built-in ones.
  case checkRules(String?)
  /// Evaluates the rules for a request without executing it.
  case explain(ExplainRequest)
  /// Lists accounts.
  case users(UsersPage)
  /// Reads an account.
  case user(AccountReference)
  /// Disables an account, or enables it again.
  case setDisabled(Bool, AccountReference)
  /// Sets the password of an account.
  case setPassword(String, of: AccountReference)
  /// Lists the sessions of an account.
  case sessions(of: AccountReference, limit: Int)
  /// Ends all sessions of an account.
  case endSessions(of: AccountReference)
  /// Creates an account.
  case addUser(email: String, password: String, username: String)
  /// Makes a code with which the user of an account sets a new password.
  case makeResetCode(of: AccountReference)
  /// Deletes an account, and on request everything that its user has added to the blog.
  case deleteUser(AccountReference, withPosts: Bool)
  /// Reads a page of the account, posts, comments and stars of a user.
  case export(of: AccountReference, ExportPage)
  /// Lists the open connections after the one with a number.
  case clients(after: Int64, limit: Int)
  /// Describes an open connection, with at most `limit` subscriptions and on-disconnect writes.
  case client(Int64, limit: Int)
  /// Ends a connection.
  case endClient(Int64)
  /// Reads the metrics.
  case metrics
  /// Reads the last lines of the log.
  case log(LogPage)
  /// Sets the level of the log; nil to read it.
  case logLevel(LogPage.Level?)
  /// Lists the namespaces.
  case namespaces
  /// Makes a pass to the console.
  case makePass
  /// Revokes a pass or the token that it gave.
  case endPass(String)
  /// Makes a backup.
  case makeBackup
  /// Lists the stored backups.
  case listBackups
}

/// A reference to an account in a request of the administrator.
public enum AccountReference: Equatable, Sendable {
  /// A user name: `@name`.
  case username(String)
  /// A text with `@` in another place: an e-mail address, or a uid that the administrator chose.
  case address(String)
  /// A uid: any other text.
  case uid(String)

  init(_ text: String) {
    if text.hasBytePrefix("@") {
      self = .username(text.droppingBytes(1))
    } else if text.utf8.contains(UInt8(ascii: "@")) {
      self = .address(text)
    } else {
      self = .uid(text)
    }
  }
}

/// The page of a list of keys.
public struct KeysPage: Equatable, Sendable {
  /// The most children of a page.
  public static let limitMax = 1_000

  /// The child after which the page begins; nil for the first child.
  public var after: Key?
  /// The most children.
  public var limit = 100
}

/// The page of a list of accounts.
public struct UsersPage: Equatable, Sendable {
  /// The most accounts of a page.
  public static let limitMax = 100

  /// The cursor of the page before; nil for the first page.
  public var after: String?
  /// The beginning of the user names or e-mail addresses; nil for all accounts.
  public var find: String?
  /// The most accounts.
  public var limit = 50
}

/// The page of an export of a user's data.
public struct ExportPage: Equatable, Sendable {
  /// The most posts, comments and stars of a page.
  public static let limitMax = 1_000

  /// The cursor of the page before; nil for the first page.
  public var after: String?
  /// The most posts, comments and stars.
  public var limit = 100

  /// Creates the first page.
  public init() {}
}

/// The page of the log.
public struct LogPage: Equatable, Sendable {
  /// The levels of lines, from the least to the most important.
  public enum Level: String, Comparable, CaseIterable, Sendable {
    /// The steps of the program.
    case trace
    /// The course of single requests, to find an error.
    case debug
    /// The normal course of events.
    case info
    /// Events that an administrator wants to know.
    case notice
    /// Something may go wrong.
    case warning
    /// Something went wrong.
    case error
    /// The server cannot go on.
    case critical

    /// The position, from 0.
    var rank: Int { Level.allCases.firstIndex(of: self) ?? 0 }

    /// Whether a level is less important than another one.
    public static func < (left: Level, right: Level) -> Bool { left.rank < right.rank }
  }

  /// The most lines of a page.
  public static let limitMax = 1_000

  /// The number of the last line that the caller knows; nil for the newest lines.
  public var after: Int64?
  /// The least important level.
  public var level = Level.trace
  /// The most lines.
  public var limit = 100

  /// Creates a page of the newest lines.
  public init() {}
}
