import CanopyTesting
import Synchronization
import Testing

@testable import CanopySession

struct MemoryBudgetTests {
  private static let mebibyte = 1024 * 1024

  /// Connections that release everything some time after the budget has ended them.
  private final class Ended: Sendable {
    private let names = Mutex<[String]>([])

    var all: [String] { names.withLock { $0 } }

    func append(_ name: String) { names.withLock { $0.append(name) } }
  }

  @Test func `a bound's worth is kept, and with a byte more the largest connection ends`() {
    let budget = MemoryBudget(bytesMax: Self.mebibyte)
    let ended = Ended()
    var small = budget.open { ended.append("small") }
    var large = budget.open { ended.append("large") }
    small.report(300_000)
    large.report(Self.mebibyte - 300_000)
    #expect(budget.used == Self.mebibyte)
    #expect(ended.all.isEmpty)
    // The one that asks for more is not the one that holds the most.
    small.report(304_096)
    #expect(ended.all == ["large"])
    large.report(0)
    #expect(budget.used == 304_096)
    small.report(Self.mebibyte)
    #expect(ended.all == ["large"])
  }

  @Test(arguments: [false, true])
  func `the rest of a connection that has ended ends no other one, as other charges do`(
    areEnding: Bool
  ) {
    let budget = MemoryBudget(bytesMax: Self.mebibyte)
    let ended = Ended()
    var small = budget.open { ended.append("small") }
    var large = budget.open { ended.append("large") }
    small.report(300_000)
    large.report(Self.mebibyte)
    #expect(ended.all == ["large"])
    let rest = budget.charge(Self.mebibyte, areEnding: areEnding)
    large.report(0)
    #expect(budget.used == 300_000 + Self.mebibyte)
    #expect((budget.shortage == nil) == areEnding)
    small.report(310_000)
    #expect(ended.all == (areEnding ? ["large"] : ["large", "small"]))
    withExtendedLifetime(rest) {}
  }

  @Test func `work is admitted up to the bound, and no connection ends for a smaller one`() {
    let budget = MemoryBudget(bytesMax: Self.mebibyte)
    let ended = Ended()
    var small = budget.open { ended.append("small") }
    var large = budget.open { ended.append("large") }
    small.report(300_000)
    large.report(100_000)
    var isAdmitted = large.admit(Self.mebibyte - 300_000 + 1)
    #expect(!isAdmitted)
    #expect(budget.used == 400_000, "nothing has changed")
    isAdmitted = large.admit(Self.mebibyte - 300_000)
    #expect(isAdmitted)
    #expect(budget.used == Self.mebibyte)
    #expect(ended.all.isEmpty)
    // Less than before is always admitted.
    isAdmitted = large.admit(500_000)
    #expect(isAdmitted)
    #expect(budget.used == 800_000)
  }

  @Test
  func `the network that holds the most loses its largest connection, and not the largest of all`()
  {
    let budget = MemoryBudget(bytesMax: Self.mebibyte)
    let ended = Ended()
    var first = budget.open(network: "203.0.113.1") { ended.append("first") }
    var second = budget.open(network: "203.0.113.1") { ended.append("second") }
    var third = budget.open(network: "203.0.113.1") { ended.append("third") }
    var honest = budget.open(network: "203.0.113.2") { ended.append("honest") }
    first.report(200_000)
    second.report(210_000)
    third.report(190_000)
    honest.report(400_000)
    #expect(ended.all.isEmpty)
    honest.report(500_000)
    #expect(ended.all == ["second"])
    second.report(0)
    // Its network holds 390,000 bytes now, and the other one has more.
    first.report(400_000)
    #expect(ended.all == ["second", "first"])
  }

  @Test func `a network makes room with the bytes that it holds above those of the one that asks`()
  {
    let budget = MemoryBudget(bytesMax: Self.mebibyte)
    let ended = Ended()
    var many = (0..<4).map { number in
      Box(budget.open(network: "203.0.113.1") { ended.append("\(number)") })
    }
    for share in many { share.share.report(250_000) }
    var honest = budget.open(network: "203.0.113.2") { ended.append("honest") }
    // The four hold 1,000,000 bytes together, and no single one as many as are wanted.
    var isAdmitted = honest.admit(400_000)
    #expect(isAdmitted)
    #expect(ended.all == ["3", "2"])
    many.removeLast(2)
    isAdmitted = honest.admit(700_000)
    #expect(!isAdmitted)
    #expect(ended.all.count == 2)
  }

  /// A share in an array.
  private final class Box {
    var share: MemoryBudget.Share

    init(_ share: consuming MemoryBudget.Share) {
      self.share = share
    }
  }

  @Test func `larger connections make room for work, and their bytes are free when they are gone`()
  {
    let budget = MemoryBudget(bytesMax: Self.mebibyte)
    let ended = Ended()
    var small = budget.open { ended.append("small") }
    var large = budget.open { ended.append("large") }
    large.report(900_000)
    var isAdmitted = small.admit(400_000)
    #expect(isAdmitted)
    #expect(ended.all == ["large"])
    isAdmitted = large.admit(900_001)
    #expect(!isAdmitted, "it is ending")
    // It still holds its bytes.
    isAdmitted = small.admit(400_001)
    #expect(!isAdmitted)
    large.leave(holding: 700_000)
    isAdmitted = large.admit(0)
    #expect(!isAdmitted, "it is gone")
    isAdmitted = small.admit(400_001)
    #expect(!isAdmitted)
    large.report(0)
    isAdmitted = small.admit(Self.mebibyte)
    #expect(isAdmitted)
    isAdmitted = small.admit(Self.mebibyte + 1)
    #expect(!isAdmitted)
    #expect(ended.all == ["large"])
  }

  @Test func `a release is noted once, when it is large enough`() {
    let budget = MemoryBudget(bytesMax: Self.mebibyte)
    var share = budget.open {}
    #expect(!budget.takeRelease(of: 1))
    share.report(500_000)
    #expect(!budget.takeRelease(of: 1))
    share.report(100_001)
    #expect(!budget.takeRelease(of: 400_000))
    share.report(90_000)
    #expect(budget.takeRelease(of: 400_000))
    #expect(!budget.takeRelease(of: 1))
    share.report(80_000)
    #expect(budget.takeRelease(of: 10_000))
  }

  @Test func `the bytes of idle connections count, but do not make them the first to end`() {
    let budget = MemoryBudget(bytesMax: Self.mebibyte)
    let ended = Ended()
    var idle = budget.open { ended.append("idle") }
    var active = budget.open { ended.append("active") }
    idle.report(400_000, idle: 400_000)
    active.report(Self.mebibyte - 400_000, idle: 100_000)
    #expect(budget.used == Self.mebibyte && ended.all.isEmpty)
    idle.report(405_000, idle: 400_000)
    #expect(ended.all == ["active"])
    active.report(0)
    #expect(budget.used == 405_000)
    // With more of its own it can be chosen.
    idle.report(Self.mebibyte + 1, idle: 400_000)
    #expect(ended.all == ["active", "idle"])
  }

  @Test func `idle connections fill half of the bound, and then no others are accepted`() {
    let budget = MemoryBudget(bytesMax: Self.mebibyte)
    var share = budget.open {}
    let half = Self.mebibyte / 2
    share.report(Self.mebibyte - 5_000, idle: half - 5_000)
    #expect(!budget.isExhausted)
    share.report(half, idle: half)
    #expect(budget.isExhausted)
    share.leave(holding: half)
    #expect(!budget.isExhausted, "the connection is gone")
    share.report(0)
    #expect(budget.used == 0)
  }

  @Test func `connections end one by one until the others fit`() {
    let budget = MemoryBudget(bytesMax: Self.mebibyte)
    let ended = Ended()
    var shares = LargeShares(budget, count: 4, ended)
    for index in 0..<4 { shares.report(index, 200_000 + index * 10_000) }
    #expect(ended.all.isEmpty)
    var greedy = budget.open { ended.append("greedy") }
    greedy.report(3 * Self.mebibyte)
    #expect(ended.all == ["greedy"])
    // It is ended once, and counts as gone.
    greedy.report(4 * Self.mebibyte)
    #expect(ended.all == ["greedy"])
    shares.report(0, 400_000)
    #expect(ended.all == ["greedy", "0"])
    shares.report(1, 400_000)
    #expect(ended.all == ["greedy", "0"])
    shares.report(0, 0)
    greedy.report(0)
    #expect(budget.used == 400_000 + 220_000 + 230_000)
  }

  @Test func `a small change is not reported, and the end of a share gives everything back`() {
    let budget = MemoryBudget(bytesMax: Self.mebibyte)
    do {
      var share = budget.open {}
      share.report(MemoryBudget.reportBytes - 1)
      #expect(budget.used == 0)
      share.report(MemoryBudget.reportBytes)
      #expect(budget.used == MemoryBudget.reportBytes)
      share.report(2 * MemoryBudget.reportBytes - 1)
      #expect(budget.used == MemoryBudget.reportBytes)
      share.report(0)
      #expect(budget.used == 0)
      share.report(500_000)
    }
    #expect(budget.used == 0)
  }

  @Test func `the requests of a connection that is gone stay charged until they are complete`() {
    let budget = MemoryBudget(bytesMax: Self.mebibyte)
    let ended = Ended()
    do {
      var gone = budget.open { ended.append("gone") }
      var cutOff = budget.open { ended.append("cut off") }
      gone.report(600_000)
      gone.leave(holding: 500_000)
      #expect(budget.used == 500_000)
      cutOff.report(600_000)
      #expect(ended.all == ["cut off"])
      #expect(!budget.isExhausted)
      // Its requests under way stay charged.
      cutOff.leave(holding: 600_000)
      #expect(budget.used == 1_100_000 && budget.isExhausted)
      var honest = budget.open { ended.append("honest") }
      honest.report(MemoryBudget.largeBytes - 1)
      #expect(ended.all == ["cut off"], "neither the gone ones nor a small one")
      gone.report(0)
      #expect(budget.used == 600_000 + MemoryBudget.largeBytes - 1)
      #expect(!budget.isExhausted)
    }
    #expect(budget.used == 0)
    do {
      let charge = budget.charge(300)
      withExtendedLifetime(charge) { #expect(budget.used == 300) }
    }
    #expect(budget.used == 0)
  }

  @Test
  func `small connections that exceed the bound together end until a sixteenth of it is free`() {
    let budget = MemoryBudget(bytesMax: Self.mebibyte)
    let ended = Ended()
    var honest = budget.open { ended.append("honest") }
    honest.report(40_000, idle: 32_000)
    let most = MemoryBudget.largeBytes - 1
    var shares = LargeShares(budget, count: 80, ended)
    var count = 0
    while ended.all.isEmpty, count < 80 {
      shares.report(count, most - count % 2)
      count += 1
    }
    #expect(count == 62)
    // The largest end first, and among equals the newest.
    let largest = stride(from: 60, through: 0, by: -2).map { "\($0)" }
    #expect(ended.all == Array(largest.prefix(ended.all.count)))
    let left = budget.used - ended.all.count * most
    #expect(left <= Self.mebibyte * 15 / 16 && left + most > Self.mebibyte * 15 / 16)
    #expect(budget.isShort)
    for name in ended.all { shares.report(Int(name) ?? 0, 0) }
    #expect(!budget.isShort && budget.used == left)
  }

  @Test func `a small connection never ends while a larger one is there`() {
    var random = SeededGenerator(printingSeedFor: "MemoryBudgetTests")
    let budget = MemoryBudget(bytesMax: Self.mebibyte)
    let ended = Ended()
    var small = LargeShares(budget, count: 20, ended)
    for index in 0..<20 { small.report(index, MemoryBudget.largeBytes - 1) }
    for _ in 0..<200 {
      var greedy = budget.open { ended.append("greedy") }
      while budget.used < 2 * Self.mebibyte, ended.all.isEmpty {
        greedy.report(Int.random(in: 0...3 * Self.mebibyte, using: &random))
      }
    }
    #expect(Set(ended.all).isSubset(of: ["greedy"]))
    #expect(budget.used == 20 * (MemoryBudget.largeBytes - 1))
  }

  @Test func `a budget of connections that all hold little is exhausted, and says so`() {
    let budget = MemoryBudget(bytesMax: Self.mebibyte)
    var shares = LargeShares(budget, count: 65, Ended())
    for index in 0..<63 { shares.report(index, MemoryBudget.largeBytes - 1) }
    shares.report(63, MemoryBudget.largeBytes / 2)
    #expect(!budget.isExhausted)
    shares.report(64, Self.mebibyte - budget.used)
    #expect(budget.used == Self.mebibyte && budget.isExhausted)
  }

  /// Shares in boxes, because an array cannot hold values that are not copied.
  private struct LargeShares: ~Copyable {
    private var boxes: [Box] = []

    private final class Box {
      var share: MemoryBudget.Share

      init(_ share: consuming MemoryBudget.Share) {
        self.share = share
      }
    }

    init(_ budget: MemoryBudget, count: Int, _ ended: Ended) {
      for index in 0..<count {
        boxes.append(Box(budget.open { ended.append("\(index)") }))
      }
    }

    mutating func report(_ index: Int, _ bytes: Int) {
      boxes[index].share.report(bytes)
    }
  }

  @Test func `idle bytes and work are different reasons to accept no connection`() {
    let budget = MemoryBudget(bytesMax: Self.mebibyte)
    var idle = budget.open {}
    idle.report(Self.mebibyte / 2 - 1, idle: Self.mebibyte / 2 - 1)
    #expect(budget.shortage == nil)
    idle.report(Self.mebibyte / 2 + 10_000, idle: Self.mebibyte / 2 + 10_000)
    #expect(budget.shortage == .idle(excess: 10_000))
    var work = budget.open {}
    work.leave(holding: Self.mebibyte / 2 - 10_001)
    #expect(budget.shortage == .idle(excess: 10_000))
    // The idle bytes alone are no reason to refuse everybody, but work is that fills the rest of the bound.
    work.leave(holding: Self.mebibyte / 2)
    #expect(budget.shortage == .work)
    idle.report(0)
    #expect(budget.shortage == nil)
  }
}
