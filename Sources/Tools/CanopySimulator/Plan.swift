import CanopyTree

/// The operations and the faults of a run, which its seed determines. A run may leave some out.
struct Plan {
  /// One operation or fault.
  enum Action: Equatable {
    // Raw clients.
    case set(Int, String)
    case setLarge(Int, String)
    case update([Int])
    case remove(Int, String)
    case increment(Int, String)
    case read(Int, String)
    case burst(Int)
    case listenAgain(Int)
    case arm(Int)
    // Raw clients, as logged-in users of the blog.
    case post(Int)
    case star(Int)
    case comment(Int)
    case delete(Int)
    // The client library.
    case librarySet(Int, String)
    case libraryIncrement(Int, String)
    case transact(Int)
    case offline(Int, milliseconds: Int64)
    /// Writes, and the end of the connection soon after them.
    case libraryBurst(Int, milliseconds: Int64)
    // Within the server.
    case internalStar(user: Int, post: Int)
    // Faults.
    case breakConnection(Int)
    /// Breaks any connection.
    case breakAny(Int)
    case partition(milliseconds: Int64)
    case crash(milliseconds: Int64, SimulatedDisk.Kept)
    case failAppend(SimulatedDisk.Fault, unresolvable: Int)
    case slowDisk(milliseconds: Int64)
    /// No write of the disk succeeds for a time.
    case fullDisk(milliseconds: Int64)
    /// No read of the disk succeeds for a time.
    case unreadableDisk(milliseconds: Int64)
  }

  /// An action at a time.
  struct Item: Equatable {
    let number: Int
    let milliseconds: Int64
    let action: Action
  }

  let seed: UInt64
  private(set) var items: [Item] = []
  let rawClients: Int
  let libraryClients: Int
  let checkpointEvery: Int

  /// The keys below `/t` to which clients write. Few, so that writes overlap.
  private static let keys = ["a", "b", "c", "d"]
  private static let counters = ["x", "y"]
  private static let lastMilliseconds: Int64 = 12_000

  init(seed: UInt64) {
    self.seed = seed
    // Another sequence than that of the scheduler.
    var random = SplitMix64(seed: seed ^ 0x5EED_0F_91A2)
    rawClients = Int.random(in: 1...4, using: &random)
    libraryClients = Int.random(in: 0...3, using: &random)
    checkpointEvery = [5, 20, 1_000].randomElement(using: &random) ?? 20
    // Each seed leaves some kinds of faults out, so that others have time to do harm.
    let kinds = (0..<8).map { _ in !random.oneIn(3) }
    let count = [20, 40, 80].randomElement(using: &random) ?? 40
    let faultOnceIn = [3, 6, 12].randomElement(using: &random) ?? 6
    var number = 0
    while items.count < count {
      number += 1
      let time = Int64.random(in: 300...Plan.lastMilliseconds, using: &random)
      let isFault = random.oneIn(faultOnceIn)
      guard let action = isFault ? fault(&random, kinds) : operation(&random) else { continue }
      items.append(Item(number: number, milliseconds: time, action: action))
    }
    items.sort { ($0.milliseconds, $0.number) < ($1.milliseconds, $1.number) }
  }

  private func operation(_ random: inout SplitMix64) -> Action? {
    let raw = Int.random(in: 0..<rawClients, using: &random)
    let key = Plan.keys.randomElement(using: &random) ?? "a"
    let counter = Plan.counters.randomElement(using: &random) ?? "x"
    guard libraryClients == 0 || !random.oneIn(3) else {
      let client = Int.random(in: 0..<libraryClients, using: &random)
      switch Int.random(in: 0..<10, using: &random) {
      case 0...3: return .librarySet(client, key)
      case 4...5:
        return .libraryBurst(client, milliseconds: random.oneIn(2) ? 5 : 300)
      case 6: return .libraryIncrement(client, counter)
      case 7...8: return .transact(client)
      default:
        return .offline(client, milliseconds: Int64.random(in: 10...1_500, using: &random))
      }
    }
    switch Int.random(in: 0..<26, using: &random) {
    case 0...4: return .set(raw, key)
    case 5: return .setLarge(raw, key)
    case 6: return .update([raw, Int.random(in: 0..<16, using: &random)])
    case 7: return .remove(raw, key)
    case 8...9: return .increment(raw, counter)
    case 10...12: return .read(raw, key)
    case 13...14: return .burst(raw)
    case 15: return .listenAgain(raw)
    case 16: return .arm(raw)
    case 17...18: return .post(raw)
    case 19...21: return .star(raw)
    case 22: return .comment(raw)
    case 23: return .delete(raw)
    default:
      return .internalStar(
        user: Int.random(in: 0..<3, using: &random), post: Int.random(in: 0..<2, using: &random))
    }
  }

  private func fault(_ random: inout SplitMix64, _ kinds: [Bool]) -> Action? {
    let kind = Int.random(in: 0..<kinds.count, using: &random)
    guard kinds[kind] else { return nil }
    let milliseconds = Int64.random(in: 10...1_500, using: &random)
    switch kind {
    case 0: return .breakAny(Int.random(in: 0..<8, using: &random))
    case 1: return .breakConnection(Int.random(in: 0..<rawClients, using: &random))
    case 2: return .partition(milliseconds: milliseconds)
    case 3:
      let kept = SimulatedDisk.Kept.allCases.randomElement(using: &random) ?? .all
      return .crash(milliseconds: milliseconds, kept)
    case 4:
      return .failAppend(
        random.oneIn(2) ? .failBefore : .failAfter,
        unresolvable: random.oneIn(3) ? Int.random(in: 1...8, using: &random) : 0)
    case 5: return .slowDisk(milliseconds: milliseconds)
    case 6: return .fullDisk(milliseconds: milliseconds)
    default: return .unreadableDisk(milliseconds: milliseconds)
    }
  }

  /// Leaves actions out.
  mutating func remove(_ numbers: Set<Int>) {
    items.removeAll { numbers.contains($0.number) }
  }
}
