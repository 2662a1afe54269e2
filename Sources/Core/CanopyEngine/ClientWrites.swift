public import CanopyTree

/// A committed write of a client that may send it again, as the journal stores it.
public struct ClientWrite: Sendable, Equatable {
  /// The client and its number of the write.
  public var origin: WriteOrigin
  /// The sequence number of its commit.
  public var sequence: Int64
  /// The time of the commit in milliseconds since 1970.
  public var time: Int64

  /// Creates a record of a write.
  public init(origin: WriteOrigin, sequence: Int64, time: Int64) {
    self.origin = origin
    self.sequence = sequence
    self.time = time
  }
}

/// The engine's answer to a write that a client sends a second time. It was committed before, and is not
/// made again.
public struct RepeatedWrite: Error, Equatable, Sendable {
  /// The sequence number of its commit.
  public var sequence: Int64

  /// Creates an answer.
  public init(sequence: Int64) {
    self.sequence = sequence
  }
}

/// The committed writes that clients may send again, because they have not reported their answers as seen.
///
/// A write at or below the number that its client has reported as seen is refused: it is a late copy,
/// and its client has the answer. That number is stored with the client's last write, so it survives a
/// restart.
///
/// A lookup is O(1), and a note is O(1) on average. A client that has seen its answers costs one entry.
/// Beyond `Limits.clientsMax` clients some are forgotten: from the owners that have the most, the clients that
/// wrote longest ago. So an account with many clients displaces only its own.
struct ClientWrites: Sendable {
  private struct Client {
    /// The commits by the numbers of the writes, all of them above `seen`.
    var sequences: [Int64: Int64] = [:]
    /// The highest number up to which it has reported the answers as seen.
    var seen: Int64 = 0
    var time: Int64 = 0
    /// The owner of its first write.
    let owner: String?

    /// Forgets the writes up to a number. It removes them one by one if only a few more answers were seen, which is
    /// usual while many writes are under way.
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

  /// The number seen by a client without a remembered write.
  private struct Mark {
    var seen: Int64
    let owner: String?
    /// The number of marks that were set before it: marks have no time.
    let order: Int64
  }

  /// The most clients without a remembered write that have a mark. Every refused write may add one, so they
  /// must not displace clients that have written.
  static let marksMax = 10_000

  /// The clients with remembered writes, by `WriteOrigin.rememberedName`.
  private var clients: [String: Client] = [:]
  /// The numbers seen by clients whose writes were all refused.
  private var marks: [String: Mark] = [:]
  private var lastMark: Int64 = 0

  /// The most clients with remembered writes.
  let clientsMax: Int

  init(_ writes: [ClientWrite] = [], clientsMax: Int = Limits.clientsMax) {
    self.clientsMax = clientsMax
    for write in writes { note(write) }
  }

  /// The number of clients with remembered writes.
  var count: Int { clients.count }

  /// The number of clients of which only the seen number is known.
  var markCount: Int { marks.count }

  /// Returns the number of writes that are remembered of a client.
  func remembered(of client: String) -> Int { clients[client]?.sequences.count ?? 0 }

  /// Returns the name under which the writes of a client are remembered.
  ///
  /// The writes that an earlier version stored have no owner. They belong to any owner that has no writes
  /// under the same name.
  private func name(of origin: WriteOrigin) -> String {
    let name = origin.rememberedName
    guard name != origin.client, clients[name] == nil, clients[origin.client] != nil else {
      return name
    }
    return origin.client
  }

  /// Admits a write to be decided, and forgets the writes whose answers its client has seen.
  ///
  /// - Returns: the origin with the highest number that the client has ever reported as seen, to be journaled with
  ///   the write.
  /// - Throws: `RepeatedWrite` if the write was committed, `EngineError.alreadyAnswered` if its client has
  ///   seen the answer, and `EngineError.tooManyUnseen`.
  mutating func admit(_ origin: WriteOrigin) throws -> WriteOrigin {
    var origin = origin
    let name = name(of: origin)
    // Removed while it changes, so that its table is not copied.
    guard var client = clients.removeValue(forKey: name) else {
      let mark = marks[name]?.seen ?? 0
      guard origin.number > mark else { throw EngineError.alreadyAnswered(origin.number) }
      origin.seen = max(origin.seen, mark)
      setMark(name, origin)
      return origin
    }
    defer { clients[name] = client }
    if let sequence = client.sequences[origin.number] { throw RepeatedWrite(sequence: sequence) }
    guard origin.number > client.seen else { throw EngineError.alreadyAnswered(origin.number) }
    client.forget(upTo: origin.seen)
    guard client.sequences.count < Limits.clientWritesMax else { throw EngineError.tooManyUnseen }
    origin.seen = client.seen
    return origin
  }

  /// Remembers a write, and forgets the writes whose answers its client has seen.
  mutating func note(_ write: ClientWrite) {
    let origin = write.origin
    let name = name(of: origin)
    var client = clients.removeValue(forKey: name) ?? Client(owner: origin.owner)
    client.forget(upTo: max(origin.seen, marks.removeValue(forKey: name)?.seen ?? 0))
    if origin.number > client.seen { client.sequences[origin.number] = write.sequence }
    client.time = max(client.time, write.time)
    clients[name] = client
    guard clients.count > clientsMax else { return }
    // A tenth at a time, so that finding them is cheap for each client that is added.
    let all = clients.map {
      SurplusClient(name: $0.key, owner: $0.value.owner, time: $0.value.time)
    }
    for client in all.surplus(clientsMax / 10) { clients[client.name] = nil }
  }

  /// Forgets the writes of commits that have failed. It keeps the numbers that their clients have seen.
  mutating func rollBack(after sequence: Int64) {
    for name in clients.keys {
      guard var client = clients[name], client.sequences.values.contains(where: { $0 > sequence })
      else { continue }
      client.sequences = client.sequences.filter { $0.value <= sequence }
      clients[name] = client.sequences.isEmpty && client.seen == 0 ? nil : client
    }
  }

  private mutating func setMark(_ name: String, _ origin: WriteOrigin) {
    guard origin.seen > 0 else { return }
    lastMark += 1
    marks[name] = Mark(seen: origin.seen, owner: origin.owner, order: lastMark)
    guard marks.count > ClientWrites.marksMax else { return }
    let all = marks.map { SurplusClient(name: $0.key, owner: $0.value.owner, time: $0.value.order) }
    for client in all.surplus(ClientWrites.marksMax / 10) { marks[client.name] = nil }
  }
}

/// A client that may be forgotten.
private struct SurplusClient {
  var name: String
  var owner: String?
  var time: Int64
}

extension [SurplusClient] {
  /// Returns the clients to forget: the oldest ones of the owners that have the most.
  ///
  /// Complexity: O(n log n).
  fileprivate func surplus(_ count: Int) -> ArraySlice<SurplusClient> {
    var owners: [String?: Int] = [:]
    var ranked: [(client: SurplusClient, owner: Int, rank: Int)] = []
    for client in self {
      let owner = owners[client.owner] ?? owners.count
      owners[client.owner] = owner
      ranked.append((client, owner, 0))
    }
    // The newest client of each owner has rank 0, the one before it rank 1.
    ranked.sort { ($0.owner, $1.client.time) < ($1.owner, $0.client.time) }
    for index in ranked.indices.dropFirst() where ranked[index].owner == ranked[index - 1].owner {
      ranked[index].rank = ranked[index - 1].rank + 1
    }
    ranked.sort { ($1.rank, $0.client.time) < ($0.rank, $1.client.time) }
    return ranked.map(\.client).prefix(count)
  }
}

extension Commit {
  /// The write to remember with this commit; nil if its client does not send it again.
  public var clientWrite: ClientWrite? {
    origin.map { ClientWrite(origin: $0, sequence: sequence, time: time) }
  }
}
