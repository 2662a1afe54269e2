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
/// A lookup is O(1), and a note is O(1) on average. A client that has seen its answers costs one entry. Any other
/// client costs an entry for each of its writes.
///
/// If all clients together have more than `writesMax` entries, a note forgets the oldest writes: those of the owner
/// with the most entries, and there of the client that wrote longest ago. So an account with many writes or clients
/// displaces only its own (see `OwnedNames`). The clients without a login of each remote network count as one owner. If a
/// client sends a forgotten write again, it is made again.
struct ClientWrites: Sendable {
  private struct Client {
    /// The commits by the numbers of the writes, all of them above `seen`.
    var sequences: [Int64: Int64] = [:]
    /// The highest number up to which it has reported the answers as seen.
    var seen: Int64 = 0
    /// The owner of its first write.
    let owner: ByteString?

    /// The number of its entries.
    var entries: Int { max(1, sequences.count) }

    /// Forgets an eighth of the writes, the oldest ones. So the search for them costs O(log writes) for each.
    mutating func forgetOldest() {
      let oldest = sequences.sorted { $0.value < $1.value }.prefix(max(1, sequences.count / 8))
      for (number, _) in oldest { sequences[number] = nil }
    }

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
    let owner: ByteString?
  }

  /// The most clients without a remembered write that have a mark. Every refused write may add one, so they
  /// must not displace clients that have written.
  static let marksMax = 10_000

  /// The clients with remembered writes, by `WriteOrigin.rememberedName`.
  private var clients: [ByteString: Client] = [:]
  /// The numbers seen by clients whose writes were all refused.
  private var marks: [ByteString: Mark] = [:]
  /// The names of `clients`, by owner and by the time of their last write.
  private var clientNames = OwnedNames()
  /// The names of `marks`, by owner and by the time at which they were set.
  private var markNames = OwnedNames()

  /// The most entries of all clients together.
  let writesMax: Int

  /// Creates the state after some writes, in any order.
  init(_ writes: [ClientWrite] = [], writesMax: Int = Limits.rememberedWritesMax) {
    self.writesMax = writesMax
    for write in writes.sorted(by: { ($0.time, $0.sequence) < ($1.time, $1.sequence) }) {
      note(write)
    }
  }

  /// The number of clients with remembered writes.
  var count: Int { clients.count }

  /// The number of entries of all clients.
  var entryCount: Int { clientNames.weight }

  /// The number of clients of which only the seen number is known.
  var markCount: Int { marks.count }

  /// Returns the number of writes that are remembered of a client.
  func remembered(of client: String) -> Int {
    clients[ByteString(client)]?.sequences.count ?? 0
  }

  /// Returns the name under which the writes of a client are remembered.
  ///
  /// The writes that an earlier version stored have no owner. They belong to any owner that has no writes
  /// under the same name.
  private func name(of origin: WriteOrigin) -> ByteString {
    let name = origin.rememberedName
    let client = ByteString(origin.client)
    guard name != client, clients[name] == nil, clients[client] != nil else { return name }
    return client
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
    let before = client.entries
    defer {
      clientNames.changeWeight(of: client.owner, by: client.entries - before)
      clients[name] = client
    }
    if let sequence = client.sequences[origin.number] { throw RepeatedWrite(sequence: sequence) }
    guard origin.number > client.seen else { throw EngineError.alreadyAnswered(origin.number) }
    client.forget(upTo: origin.seen + (isPlanted(.forgetsOneTooMany) ? 1 : 0))
    guard client.sequences.count < Limits.clientWritesMax else { throw EngineError.tooManyUnseen }
    origin.seen = client.seen
    return origin
  }

  /// Remembers a write, and forgets the writes whose answers its client has seen. If there are too many writes, forgets
  /// the oldest ones of the owner that has the most.
  mutating func note(_ write: ClientWrite) {
    let origin = write.origin
    let name = name(of: origin)
    let known = clients.removeValue(forKey: name)
    var client = known ?? Client(owner: origin.rememberedOwner)
    client.forget(upTo: max(origin.seen, removeMark(name)?.seen ?? 0))
    if origin.number > client.seen { client.sequences[origin.number] = write.sequence }
    clients[name] = client
    clientNames.use(
      name, of: client.owner, changing: client.entries - (known?.entries ?? 0))
    while clientNames.weight > writesMax, let surplus = clientNames.first() { shorten(surplus) }
    assert(clients.count == clientNames.count, "each client has a place in the order")
  }

  /// Forgets the oldest writes of a client, or the client itself if it has one entry.
  private mutating func shorten(_ name: ByteString) {
    guard var client = clients.removeValue(forKey: name) else { return }
    guard client.entries > 1 else {
      return clientNames.remove(name, of: client.owner, weight: client.entries)
    }
    let before = client.entries
    client.forgetOldest()
    clientNames.changeWeight(of: client.owner, by: client.entries - before)
    clients[name] = client
  }

  /// Forgets the writes of commits that have failed. It keeps the numbers that their clients have seen. O(commits).
  mutating func rollBack(_ commits: some Sequence<Commit>) {
    for commit in commits {
      guard let origin = commit.origin else { continue }
      let name = name(of: origin)
      // Removed while it changes, so that its table is not copied.
      guard var client = clients.removeValue(forKey: name) else { continue }
      let before = client.entries
      if client.sequences[origin.number] == commit.sequence {
        client.sequences[origin.number] = nil
      }
      if client.sequences.isEmpty && client.seen == 0 {
        clientNames.remove(name, of: client.owner, weight: before)
      } else {
        clientNames.changeWeight(of: client.owner, by: client.entries - before)
        clients[name] = client
      }
    }
  }

  private mutating func setMark(_ name: ByteString, _ origin: WriteOrigin) {
    guard origin.seen > 0 else { return }
    // Its owner is that of its first write, as for a client.
    let known = marks[name]
    let owner = known.map(\.owner) ?? origin.rememberedOwner
    marks[name] = Mark(seen: origin.seen, owner: owner)
    markNames.use(name, of: owner, changing: known == nil ? 1 : 0)
    if marks.count > ClientWrites.marksMax, let surplus = markNames.first() {
      _ = removeMark(surplus)
    }
    assert(marks.count == markNames.count, "each mark has a place in the order")
  }

  private mutating func removeMark(_ name: ByteString) -> Mark? {
    guard let mark = marks.removeValue(forKey: name) else { return nil }
    markNames.remove(name, of: mark.owner, weight: 1)
    return mark
  }
}

extension Commit {
  /// The write to remember with this commit; nil if its client does not send it again.
  public var clientWrite: ClientWrite? {
    origin.map { ClientWrite(origin: $0, sequence: sequence, time: time) }
  }
}
