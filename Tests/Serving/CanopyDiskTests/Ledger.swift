import CanopyTree

/// The writes of a run, by the replies that their clients have.
struct Ledger: Sendable {
  /// The state of a write whose place or text is its own.
  enum Outcome: Sendable {
    /// The server has acknowledged it.
    case made
    /// The server has said that it was not made.
    case notMade
    /// The server could not tell.
    case unknown
  }

  struct Account: Sendable {
    var email: String
    var uid: String
    var token: String
    /// The passwords that may be in force; one unless a change has an unknown outcome.
    var passwords: [String]
  }

  /// The titles of posts.
  var posts: [String: Outcome] = [:]
  /// The texts of comments.
  var comments: [String: Outcome] = [:]
  /// The children of `/values`.
  var values: [String: Outcome] = [:]
  /// The children of `/gone`, which count the times that an on-disconnect write was made.
  var disconnects: [String: Outcome] = [:]
  /// Whether a user has starred a post, by user and post; nil for an unknown outcome.
  var stars: [[String]: Bool?] = [:]
  /// The increments of `/count` that were acknowledged.
  var increments = 0
  /// Whether one more increment has an unknown outcome.
  var hasUnknownIncrement = false
  var accounts: [Account] = []
  /// The texts of rules that may be in force; none if the rules were not replaced.
  var rules: [String] = []
  /// The names of the backups that are complete.
  var backups: [String] = []
  /// The number of acknowledged writes.
  var acknowledged = 0
}

/// The faults of the server that a run has found.
struct Findings: Sendable {
  /// Acknowledged writes that are missing.
  var lost: [String] = []
  /// Writes that exist in part, and damage.
  var torn: [String] = []
  /// Writes that were made twice, or although the server has denied it.
  var doubled: [String] = []
  /// Replies other than a success or UNAVAILABLE, and servers that do not go on.
  var stuck: [String] = []

  mutating func add(_ other: Findings) {
    lost += other.lost
    torn += other.torn
    doubled += other.doubled
    stuck += other.stuck
  }

  var all: [String] {
    lost.map { "lost: \($0)" } + torn.map { "torn: \($0)" }
      + doubled.map { "wrongly acknowledged: \($0)" } + stuck.map { "stuck: \($0)" }
  }
}
