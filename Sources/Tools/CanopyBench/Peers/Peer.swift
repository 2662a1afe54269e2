/// A system under measurement: a running server with connected users.
protocol Peer: AnyObject {
  var name: PeerName { get }
  var usage: Usage { get }

  /// Opens a logged-in connection for each of the first users.
  func connect(_ connections: Int) throws

  /// Loads the server for one round.
  func run(_ round: Round) throws -> Sample

  /// Returns the counts of the server; nil if it stores no data.
  func totals() throws -> Totals?

  /// Returns the posts with the most stars of all, as `TOP` without a user does; nil if it stores no data.
  func ranking() throws -> Ranking?

  func stop() throws
}

/// The time of checkpoints, as PostgreSQL and Canopy call them; Redis calls its own a rewrite of the file.
enum Checkpoints {
  /// No checkpoint before the end of the measurement.
  case later
  /// The times that each system chooses by default.
  case byDefault
}

enum PeerName: String, CaseIterable, Codable {
  case canopy = "Canopy"
  /// A node of Canopy whose journal is in PostgreSQL.
  case canopyOnPostgres = "Canopy on PostgreSQL"
  case redis = "Redis"
  case postgres = "PostgreSQL"
  case echo = "echo"
  case nginx = "nginx"
  case hummingbird = "Hummingbird"
  case nio = "NIO"
  case nats = "NATS"
}

/// The counts of a system's data, which must agree with its replies.
struct Totals: Equatable {
  /// The number of posts in the list of all.
  var posts: Int
  /// The number of posts in the lists of their authors.
  var copies: Int
  /// The star count of the popular post.
  var starCount: Int
  /// The number of its stars.
  var stars: Int
}

/// The posts with the most stars of all authors, best first.
struct Ranking: Equatable {
  struct Entry: Equatable {
    /// The star count in the list.
    var starCount: Int
    /// The number of stars of the post.
    var stars: Int
  }

  var entries: [Entry]

  /// Whether the list has the wanted length, descends, and agrees with the stars of each post.
  var isSound: Bool {
    entries.count == BlogRequest.topCount && entries.allSatisfy { $0.starCount == $0.stars }
      && zip(entries, entries.dropFirst()).allSatisfy { $0.starCount >= $1.starCount }
  }
}

extension Peer {
  func ranking() throws -> Ranking? { nil }

  /// Runs a round, and adds its peak of memory.
  func measure(_ round: Round) throws -> Sample {
    usage.resetPeak()
    var sample = try run(round)
    sample.peakBytes = usage.peakBytes()
    return sample
  }
}
