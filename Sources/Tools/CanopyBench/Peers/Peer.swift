/// A system under measurement: a server that runs, and fifty users connected to it.
protocol Peer: AnyObject {
  var name: PeerName { get }
  var usage: Usage { get }

  /// Opens connections, one for each of the first users, logged in.
  func connect(_ connections: Int) throws

  /// Loads it for one round.
  func run(_ round: Round) throws -> Sample

  /// What it holds, asked of itself; nil for one that holds nothing.
  func totals() throws -> Totals?

  func stop() throws
}

enum PeerName: String, CaseIterable, Codable {
  case canopy = "Canopy"
  case redis = "Redis"
  case postgres = "PostgreSQL"
  case echo = "echo"
}

/// What can be told of a system's data from what was asked of it, if its answers were right.
struct Totals: Equatable {
  /// In the list of all.
  var posts: Int
  /// In the lists of their authors.
  var copies: Int
  /// How often the popular post says that it is starred.
  var starCount: Int
  /// The stars that are on it.
  var stars: Int
}

extension Peer {
  /// A round, with the peak of memory that belongs to it.
  func measure(_ round: Round) throws -> Sample {
    usage.resetPeak()
    var sample = try run(round)
    sample.peakBytes = usage.peakBytes()
    return sample
  }
}
