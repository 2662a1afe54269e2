import CanopyTree
import CanopyWire
import Testing

@testable import CanopySession

/// The bounds on writes without a server.
struct WriteQuotasTests {
  private func quotas(exempts: Bool = true) -> WriteQuotas {
    var limits = Limits()
    limits.writesPerSecond = 1
    limits.writesPerSecondPerAddress = 2
    limits.writeBurstSeconds = 1
    return WriteQuotas(limits, exemptsThisMachine: exempts)
  }

  private func origin(_ number: Int64, seen: Int64 = 0) throws -> WriteOrigin {
    try WriteOrigin(client: "0123456789abcdef", number: number, seen: seen)
  }

  @Test func `this machine has no network, and its users are exempt unless the settings say so`() {
    #expect(quotas().owner(user: "ada", network: nil).isExempt)
    let limited = quotas(exempts: false)
    #expect(limited.owner(user: nil, network: nil).isExempt)
    let owner = limited.owner(user: "ada", network: nil)
    #expect(owner.user == "ada" && owner.network == nil)
    #expect(quotas().owner(user: "ada", network: "n").user == "ada")
  }

  @Test func `a user on several networks has one bucket, and users of a network share its bucket`()
  {
    let quotas = quotas()
    let ada = quotas.owner(user: "ada", network: "1")
    let other = quotas.owner(user: "ada", network: "2")
    #expect(quotas.admit(ada, bytes: 1, now: 0) == nil)
    expectRefusal(
      quotas.admit(other, bytes: 1, now: 0), of: "a write of ada", .rateLimited)
    let bob = quotas.owner(user: "bob", network: "1")
    #expect(quotas.admit(bob, bytes: 1, now: 0) == nil)
    let eve = quotas.owner(user: "eve", network: "1")
    let refusal = quotas.admit(eve, bytes: 1, now: 0)
    #expect(refusal?.sentence.contains("your address") == true)
    #expect(refusal?.retryMilliseconds == 1_000)
    // A refused write counts for nobody: eve can write from elsewhere.
    let elsewhere = quotas.owner(user: "eve", network: "3")
    #expect(quotas.admit(elsewhere, bytes: 1, now: 0) == nil)
    #expect(quotas.refused.map(\.count) == [1, 1, 0, 0])
  }

  @Test func `after a refusal later writes of a client wait for the refused one`() throws {
    let (quotas, order) = (quotas(), WriteOrder())
    let ada = quotas.owner(user: "ada", network: "1")
    func admit(_ number: Int64, seen: Int64 = 0, at now: Int64) throws -> WireError? {
      let origin = try origin(number, seen: seen)
      let refusal = order.admit(origin, of: ada, bytes: 1, by: quotas, now: now)
      // As its reply does.
      if let refusal { order.note(origin, from: ada.network, refusal, now: now) }
      return refusal
    }
    #expect(try admit(1, at: 0) == nil)
    for number: Int64 in [2, 3] {
      #expect(try admit(number, at: 0) != nil)
    }
    let early = try admit(3, at: 1_000)
    #expect(early?.sentence.contains("earlier write") == true)
    #expect(early?.retryMilliseconds == 1_000)
    #expect(try admit(2, at: 1_000) == nil)
    #expect(try admit(3, at: 2_000) == nil)
    // A client that has given a write up says so by the number that it has seen.
    #expect(try admit(4, at: 2_000) != nil)
    #expect(try admit(6, seen: 4, at: 3_000) == nil)
    // Others need not wait for longer than a minute.
    #expect(try admit(7, at: 3_000) != nil)
    #expect(try admit(8, at: 62_999) != nil)
    #expect(try admit(8, at: 63_000) == nil)
  }

  @Test func `a post counts with all of its bytes`() {
    let body = String(repeating: "é", count: 65_536)
    let bytesMax = Operations.bytesCountedAtOnceMax
    for write in [BlogWrite.post(title: "ab", body: body), .edit(id: "p", title: "a", body: body)] {
      #expect(WriteRequest.blog(write).bytes(atMost: bytesMax) == 131_074)
    }
  }

  @Test func `the order also holds for callers whose writes do not count`() throws {
    let (quotas, order) = (quotas(), WriteOrder())
    let owner = WriteQuotas.Owner()
    #expect(order.admit(try origin(1), of: owner, bytes: 1, by: quotas, now: 0) == nil)
    order.note(try origin(2), from: nil, WireError(.unavailable, "the disk is full"), now: 0)
    let early = order.admit(try origin(3), of: owner, bytes: 1, by: quotas, now: 0)
    expectRefusal(early, of: "write 3 before write 2", .rateLimited)
    #expect(order.admit(try origin(2), of: owner, bytes: 1, by: quotas, now: 0) == nil)
    #expect(order.admit(try origin(3), of: owner, bytes: 1, by: quotas, now: 0) == nil)
  }

  @Test func `the space is low below the bound, and enough again an eighth above it`() {
    let space = FreeSpace(bytesMin: 800)
    #expect(!space.isLow && space.bytes == nil)
    #expect(space.note(800) == nil && !space.isLow)
    #expect(space.note(799) == true && space.isLow)
    #expect(space.note(899) == nil && space.isLow)
    #expect(space.note(900) == false && !space.isLow)
    #expect(space.note(0) == true && space.bytes == 0)
    let greatest = FreeSpace(bytesMin: .max)
    #expect(greatest.note(.max - 1) == true)
    #expect(greatest.note(.max - 1) == nil && greatest.isLow)
    let unbounded = FreeSpace()
    #expect(unbounded.note(0) == nil && !unbounded.isLow)
  }

  @Test
  func `a network adds so many bytes to the tree at once and in a day, and other writes go on`() {
    var limits = Limits()
    // A byte in a second.
    limits.treeBytesPerDayPerAddress = 86_400
    let quotas = WriteQuotas(limits)
    let ada = quotas.owner(user: "ada", network: "192.0.2.1")
    let bob = quotas.owner(user: "bob", network: "192.0.2.1")
    let other = quotas.owner(user: "ada", network: "192.0.2.2")
    #expect(quotas.countsGrowth(of: ada) && !quotas.countsGrowth(of: WriteQuotas.Owner()))
    #expect(quotas.admit(ada, bytes: 1, growth: 86_399, now: 0) == nil)
    #expect(quotas.admit(bob, bytes: 1, growth: 101, now: 0) == nil)
    let refusal = quotas.admit(ada, bytes: 1, growth: 1, now: 0)
    expectRefusal(refusal, of: "a write of ada that adds 1 byte", .rateLimited, "in a day")
    #expect(refusal?.retryMilliseconds == 101_000)
    for growth in [0, -50] {
      #expect(quotas.admit(bob, bytes: 1, growth: growth, now: 0) == nil)
    }
    #expect(quotas.admit(other, bytes: 1, growth: 1, now: 0) == nil)
    let early = quotas.admit(bob, bytes: 1, growth: 1, now: 100_999)
    expectRefusal(early, of: "a write of bob that adds 1 byte", .rateLimited)
    #expect(quotas.admit(bob, bytes: 1, growth: 1, now: 101_000) == nil)
    // Further bytes of a large write.
    quotas.charge(bob, growth: 1_000, now: 101_000)
    let wait = quotas.admit(bob, bytes: 1, growth: 1, now: 101_000)?.retryMilliseconds
    #expect(wait == 1_001_000)
    #expect(quotas.refused.last.map { $0.reason == "growth" && $0.count == 3 } == true)
    // Everything comes back in a day.
    #expect(
      quotas.admit(bob, bytes: 1, growth: 86_400, now: 86_400_000 + 1_102_000) == nil)
    #expect(
      quotas.admit(bob, bytes: 1, growth: 1, now: 86_400_000 + 1_102_000)?.code
        == .rateLimited)
  }

  @Test func `without a bound the bytes added to the tree do not count`() {
    let quotas = WriteQuotas(Limits())
    let ada = quotas.owner(user: "ada", network: "192.0.2.1")
    #expect(!quotas.countsGrowth(of: ada))
    for _ in 0..<10 {
      #expect(quotas.admit(ada, bytes: 1, growth: .max / 2, now: 0) == nil)
    }
  }
}
