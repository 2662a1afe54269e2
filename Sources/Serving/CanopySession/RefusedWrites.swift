internal import CanopyEngine
internal import CanopyTree

/// The refused writes of each client of `ONCE`, so that later writes of the client do not overtake them.
///
/// A client that has sent several writes ahead sends all of them again in their order. Without this, a later one could
/// be made first, and the earlier one, made after it, would replace its value.
///
/// If there are too many clients, the owner with the most of them loses the one that was refused longest ago (see
/// `OwnedNames`). So no user can make the server forget the clients of another one. The anonymous clients of each remote
/// network have an owner of their own.
///
/// Complexity: O(`numbersMax`).
struct RefusedWrites: Sendable {
  private struct Client {
    /// The numbers of the writes, ascending.
    var numbers: [Int64] = []
    /// The time of the last refusal of the first of them.
    var at: Int64
    /// The owner of the first refused write.
    let owner: ByteString?
  }

  /// The number of clients that are remembered.
  static let clientsMax = 10_000
  /// The number of writes of a client that are remembered: the first ones.
  static let numbersMax = 64
  /// The time for which a client has to send a refused write again before later ones, in milliseconds. After it, the client
  /// has probably given the write up.
  static let orderMax: Int64 = 60_000

  /// The clients by `WriteOrigin.rememberedName`.
  private var clients: [ByteString: Client] = [:]
  /// The names of `clients`, each with the weight 1.
  private var names = OwnedNames()

  /// The number of clients.
  var count: Int { clients.count }

  /// Notes that a write was refused.
  ///
  /// - Parameters:
  ///   - network: the remote network of its client; nil for this machine.
  ///   - now: the time in milliseconds since 1970.
  mutating func note(_ origin: WriteOrigin, from network: String? = nil, now: Int64) {
    let name = origin.rememberedName
    let known = clients[name]
    var origin = origin
    origin.network = network
    let owner = known.map { $0.owner } ?? origin.rememberedOwner
    var client = present(origin, now) ?? Client(at: now, owner: owner)
    if !client.numbers.contains(origin.number) {
      client.numbers.append(origin.number)
      client.numbers.sort()
      client.numbers = Array(client.numbers.prefix(RefusedWrites.numbersMax))
    } else if client.numbers.first == origin.number {
      // It came again, so the client has not given it up.
      client.at = now
    } else {
      return
    }
    clients[name] = client
    names.use(name, of: owner, changing: known == nil ? 1 : 0)
    while names.count > RefusedWrites.clientsMax, let surplus = names.first() { remove(surplus) }
  }

  private mutating func remove(_ name: ByteString) {
    guard let client = clients.removeValue(forKey: name) else { return }
    names.remove(name, of: client.owner, weight: 1)
  }

  /// Whether a refused write has yet to come again before a write.
  func blocks(_ origin: WriteOrigin, now: Int64) -> Bool {
    guard let first = present(origin, now)?.numbers.first else { return false }
    return first < origin.number
  }

  /// Notes that a write has come in its order. Forgets its refusal, and those of earlier writes.
  mutating func forget(_ origin: WriteOrigin, now: Int64) {
    forget(of: origin, now: now) { $0 <= origin.number }
  }

  /// Notes that a write has its final outcome. Forgets its refusal alone: earlier writes may have yet to come again.
  mutating func settle(_ origin: WriteOrigin, now: Int64) {
    forget(of: origin, now: now) { $0 == origin.number }
  }

  private mutating func forget(
    of origin: WriteOrigin, now: Int64, where isForgotten: (Int64) -> Bool
  ) {
    var client = present(origin, now)
    client?.numbers.removeAll(where: isForgotten)
    if let client, !client.numbers.isEmpty {
      clients[origin.rememberedName] = client
    } else {
      remove(origin.rememberedName)
    }
  }

  /// Returns the writes that the client of a write has not given up; nil if there are none.
  private func present(_ origin: WriteOrigin, _ now: Int64) -> Client? {
    guard var client = clients[origin.rememberedName] else { return nil }
    let (age, overflow) = now.subtractingReportingOverflow(client.at)
    client.numbers.removeAll { $0 <= origin.seen }
    return overflow || age >= RefusedWrites.orderMax || client.numbers.isEmpty ? nil : client
  }
}
