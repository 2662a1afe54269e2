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
/// A lookup and a note are O(1); a client that has seen its answers costs one entry. Beyond
/// `Limits.clientsMax` clients, those that wrote longest ago are forgotten.
struct ClientWrites: Sendable {
  private struct Client {
    /// The commits by the numbers of the writes.
    var sequences: [Int64: Int64] = [:]
    var time: Int64 = 0
  }

  private var clients: [String: Client] = [:]

  init(_ writes: [ClientWrite] = []) {
    for write in writes { note(write) }
  }

  /// The number of clients.
  var count: Int { clients.count }

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
    if client.sequences.contains(where: { $0.key <= origin.seen }) {
      client.sequences = client.sequences.filter { $0.key > origin.seen }
    }
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
