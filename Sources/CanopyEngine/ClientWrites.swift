public import CanopyTree

/// A write of a client, as the journal remembers it.
public struct ClientWrite: Sendable, Equatable {
  /// Which write it was.
  public var origin: WriteOrigin
  /// The sequence number of its commit.
  public var sequence: Int64
  /// When it was made: milliseconds since 1970.
  public var time: Int64

  /// A write.
  public init(origin: WriteOrigin, sequence: Int64, time: Int64) {
    self.origin = origin
    self.sequence = sequence
    self.time = time
  }
}

/// The engine's answer to a write that a client sends a second time: it was made before, and is not
/// made again.
public struct RepeatedWrite: Error, Equatable, Sendable {
  /// The sequence number of its commit.
  public var sequence: Int64

  /// An answer.
  public init(sequence: Int64) {
    self.sequence = sequence
  }
}

/// The writes that clients may send again: those made whose answers they have not said to have seen.
///
/// A write at or below the number that its client has said to have seen is refused: it is a late copy,
/// and its client has the answer. That number is kept with the client's last write, so it survives a
/// restart.
///
/// A lookup is O(1), and so is a note on the average; a client that has seen its answers costs one entry.
/// Beyond `Limits.clientsMax` clients, those that wrote longest ago are forgotten.
struct ClientWrites: Sendable {
  private struct Client {
    /// The commits by the numbers of the writes, all of them above `seen`.
    var sequences: [Int64: Int64] = [:]
    /// The highest number up to which it has said to have seen the answers.
    var seen: Int64 = 0
    var time: Int64 = 0

    /// Forgets the writes up to a number: one by one where only a few answers more were seen, as is the
    /// rule while many writes are under way.
    mutating func forget(upTo number: Int64) {
      guard number > seen else { return }
      if number - seen > sequences.count {
        sequences = sequences.filter { $0.key > number }
      } else {
        for number in seen + 1...number { sequences[number] = nil }
      }
      seen = number
    }
  }

  /// Clients without a remembered write that have a mark; beyond so many all such marks are forgotten.
  /// Every refused write may add one, so they must not displace clients that have written.
  static let marksMax = 10_000

  private var clients: [String: Client] = [:]
  /// The numbers seen by clients all of whose writes were refused.
  private var marks: [String: Int64] = [:]

  init(_ writes: [ClientWrite] = []) {
    for write in writes { note(write) }
  }

  /// The number of clients with remembered writes.
  var count: Int { clients.count }

  /// The number of clients of which only the number seen is known.
  var markCount: Int { marks.count }

  /// The writes that are remembered of a client.
  func remembered(of client: String) -> Int { clients[client]?.sequences.count ?? 0 }

  /// Lets a write be decided, and forgets the writes whose answers its client has seen.
  ///
  /// - Returns: the origin with the highest number that the client has ever said to have seen, which is
  ///   to be journaled with the write.
  /// - Throws: `RepeatedWrite` if the write was made, `EngineError.alreadyAnswered` if its client has
  ///   seen the answer, and `EngineError.tooManyUnseen`.
  mutating func admit(_ origin: WriteOrigin) throws -> WriteOrigin {
    var origin = origin
    // Removed while it changes, so that its table is not copied.
    guard var client = clients.removeValue(forKey: origin.client) else {
      let mark = marks[origin.client] ?? 0
      guard origin.number > mark else { throw EngineError.alreadyAnswered(origin.number) }
      origin.seen = max(origin.seen, mark)
      setMark(origin)
      return origin
    }
    defer { clients[origin.client] = client }
    if let sequence = client.sequences[origin.number] { throw RepeatedWrite(sequence: sequence) }
    guard origin.number > client.seen else { throw EngineError.alreadyAnswered(origin.number) }
    client.forget(upTo: origin.seen)
    guard client.sequences.count < Limits.clientWritesMax else { throw EngineError.tooManyUnseen }
    origin.seen = client.seen
    return origin
  }

  /// Remembers a write, and forgets those that its client has seen the answers of.
  mutating func note(_ write: ClientWrite) {
    let origin = write.origin
    var client = clients.removeValue(forKey: origin.client) ?? Client()
    client.forget(upTo: max(origin.seen, marks.removeValue(forKey: origin.client) ?? 0))
    if origin.number > client.seen { client.sequences[origin.number] = write.sequence }
    client.time = max(client.time, write.time)
    clients[origin.client] = client
    if clients.count > Limits.clientsMax { forgetOldest() }
  }

  /// Forgets the writes of commits that have failed, but not the numbers that their clients have seen.
  mutating func rollBack(after sequence: Int64) {
    for name in clients.keys {
      guard var client = clients[name], client.sequences.values.contains(where: { $0 > sequence })
      else { continue }
      client.sequences = client.sequences.filter { $0.value <= sequence }
      clients[name] = client.sequences.isEmpty && client.seen == 0 ? nil : client
    }
  }

  private mutating func setMark(_ origin: WriteOrigin) {
    guard origin.seen > 0 else { return }
    if marks.count >= ClientWrites.marksMax { marks = [:] }
    marks[origin.client] = origin.seen
  }

  /// Forgets a tenth at a time, so that finding them is cheap for each client that is added.
  private mutating func forgetOldest() {
    let count = Limits.clientsMax / 10
    let times = clients.values.map(\.time).sorted()
    guard times.indices.contains(count - 1) else { return }
    let oldest = clients.lazy.filter { $0.value.time <= times[count - 1] }.prefix(count)
    for name in oldest.map(\.key) { clients[name] = nil }
  }
}

extension Commit {
  /// The write to be remembered with this commit, if its client may send it again.
  public var clientWrite: ClientWrite? {
    origin.map { ClientWrite(origin: $0, sequence: sequence, time: time) }
  }
}
