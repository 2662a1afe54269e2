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

/// The write was made before, and is not made again: what the engine answers to one that a client
/// sends a second time.
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
/// A lookup is O(1), and so is a note on the average; a client that has seen its answers costs one entry.
/// Beyond `Limits.clientsMax` clients, those that wrote longest ago are forgotten.
struct ClientWrites: Sendable {
  private struct Client {
    /// The commits by the numbers of the writes.
    var sequences: [Int64: Int64] = [:]
    /// The highest number up to which it has said to have seen the answers.
    var seen: Int64 = 0
    var time: Int64 = 0

    /// Forgets the writes up to a number: one by one where only a few answers more were seen, as is the
    /// rule while many writes are under way. The others include any that came late, below the number.
    mutating func forget(upTo number: Int64) {
      let last = seen
      seen = max(seen, number)
      if seen - last > sequences.count || sequences.count >= Limits.clientWritesMax {
        sequences = sequences.filter { $0.key > seen }
      } else if seen > last {
        for number in last + 1...seen { sequences[number] = nil }
      }
    }
  }

  private var clients: [String: Client] = [:]

  init(_ writes: [ClientWrite] = []) {
    for write in writes { note(write) }
  }

  /// The number of clients.
  var count: Int { clients.count }

  /// The writes that are remembered of a client.
  func remembered(of client: String) -> Int { clients[client]?.sequences.count ?? 0 }

  /// Refuses a write that was made before, or that exceeds what is remembered of a client.
  func check(_ origin: WriteOrigin) throws {
    guard let client = clients[origin.client] else { return }
    if let sequence = client.sequences[origin.number] { throw RepeatedWrite(sequence: sequence) }
    guard client.sequences.count < Limits.clientWritesMax else {
      let unseen = client.sequences.keys.count { $0 > origin.seen }
      guard unseen < Limits.clientWritesMax else { throw EngineError.tooManyUnseen }
      return
    }
  }

  /// Remembers a write, and forgets those that its client has seen the answers of.
  mutating func note(_ write: ClientWrite) {
    let origin = write.origin
    var client = clients.removeValue(forKey: origin.client) ?? Client()
    client.forget(upTo: origin.seen)
    client.sequences[origin.number] = write.sequence
    client.time = max(client.time, write.time)
    clients[origin.client] = client
    if clients.count > Limits.clientsMax { forgetOldest() }
  }

  /// Forgets the writes of commits that have failed.
  mutating func takeBack(after sequence: Int64) {
    for name in clients.keys {
      guard var client = clients[name], client.sequences.values.contains(where: { $0 > sequence })
      else { continue }
      client.sequences = client.sequences.filter { $0.value <= sequence }
      clients[name] = client.sequences.isEmpty ? nil : client
    }
  }

  /// A tenth at a time, so that sorting them is cheap for each that comes.
  private mutating func forgetOldest() {
    let oldest = clients.sorted { $0.value.time < $1.value.time }
    for (name, _) in oldest.prefix(Limits.clientsMax / 10) { clients[name] = nil }
  }
}

extension Commit {
  /// The write to be remembered with this commit, if its client may send it again.
  public var clientWrite: ClientWrite? {
    origin.map { ClientWrite(origin: $0, sequence: sequence, time: time) }
  }
}
