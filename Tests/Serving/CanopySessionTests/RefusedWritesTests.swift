import CanopyTree
import CanopyWire
import Testing

@testable import CanopySession

/// The order of writes with ONCE after a refusal.
struct RefusedWritesTests {
  private func origin(_ number: Int64, seen: Int64 = 0) throws -> WriteOrigin {
    try WriteOrigin(client: "a-name-of-a-client", number: number, seen: seen)
  }

  @Test func `later writes of a client are blocked until each refused one has come again`() throws {
    var refused = RefusedWrites()
    for number: Int64 in [5, 3, 3] { refused.note(try origin(number), now: 0) }
    let isBlocked = try (2...6).map { refused.blocks(try origin($0), now: 0) }
    #expect(isBlocked == [false, false, true, true, true])
    refused.forget(try origin(3), now: 0)
    #expect(try !refused.blocks(origin(4), now: 0))
    #expect(try !refused.blocks(origin(5), now: 0))
    #expect(try refused.blocks(origin(6), now: 0))
    refused.forget(try origin(6), now: 0)
    #expect(refused.count == 0)
    #expect(
      try !refused.blocks(WriteOrigin(client: "another-client-name", number: 9, seen: 0), now: 0))
  }

  @Test func `a write that was given up blocks none`() throws {
    var refused = RefusedWrites()
    refused.note(try origin(3), now: 0)
    #expect(try refused.blocks(origin(4, seen: 2), now: 0))
    #expect(try !refused.blocks(origin(4, seen: 3), now: 0))
    #expect(try refused.blocks(origin(4), now: RefusedWrites.orderMax - 1))
    #expect(try !refused.blocks(origin(4), now: RefusedWrites.orderMax))
    // Its time counts from the next refusal then.
    refused.note(try origin(4), now: RefusedWrites.orderMax)
    #expect(try !refused.blocks(origin(4), now: RefusedWrites.orderMax))
    #expect(try refused.blocks(origin(5), now: 2 * RefusedWrites.orderMax - 1))
  }

  @Test func `the first refused writes of a client are remembered, up to a bound`() throws {
    var refused = RefusedWrites()
    for number in 1...Int64(RefusedWrites.numbersMax) + 1 {
      refused.note(try origin(number), now: 0)
    }
    refused.forget(try origin(Int64(RefusedWrites.numbersMax) - 1), now: 0)
    #expect(refused.count == 1)
    refused.forget(try origin(Int64(RefusedWrites.numbersMax)), now: 0)
    #expect(refused.count == 0)
  }

  @Test func `the clients of one user do not displace those of another`() throws {
    var refused = RefusedWrites()
    func origin(_ client: String, of owner: String?, _ number: Int64 = 1) throws -> WriteOrigin {
      var origin = try WriteOrigin(client: client, number: number, seen: 0)
      origin.owner = owner
      return origin
    }
    func isKnown(_ client: String, of owner: String?) throws -> Bool {
      try refused.blocks(origin(client, of: owner, 2), now: 0)
    }
    let victim = "name-of-the-first-client"
    refused.note(try origin(victim, of: "ada"), now: 0)
    let clientsMax = RefusedWrites.clientsMax
    for number in 1..<clientsMax {
      refused.note(try origin("a-secret-random-name-\(number)", of: "eve"), now: 0)
    }
    #expect(refused.count == clientsMax)
    #expect(try isKnown("a-secret-random-name-1", of: "eve"))
    for number in clientsMax...clientsMax + 500 {
      refused.note(try origin("a-secret-random-name-\(number)", of: "eve"), now: 0)
    }
    #expect(refused.count == clientsMax)
    #expect(try isKnown(victim, of: "ada"))
    #expect(try !isKnown("a-secret-random-name-501", of: "eve"))
    #expect(try isKnown("a-secret-random-name-502", of: "eve"))
    // Another user under the same secret name counts for the first one.
    refused.note(try origin(victim, of: "eve", 3), now: 0)
    refused.forget(try origin(victim, of: "eve", 3), now: 0)
    #expect(try refused.count == clientsMax - 1 && !isKnown(victim, of: "ada"))
  }

  @Test func `the anonymous clients of one network do not displace those of another`() throws {
    var refused = RefusedWrites()
    func origin(_ client: String, _ number: Int64 = 1) throws -> WriteOrigin {
      var origin = try WriteOrigin(client: client, number: number, seen: 0)
      origin.owner = WriteOrigin.anonymousOwner
      return origin
    }
    let (victim, local) = ("name-of-the-first-client", "name-of-a-local-client")
    refused.note(try origin(victim), from: "192.0.2.1", now: 0)
    refused.note(try origin(local), now: 0)
    for number in 0..<RefusedWrites.clientsMax {
      refused.note(try origin("a-secret-random-name-\(number)"), from: "192.0.2.2", now: 0)
    }
    #expect(refused.count == RefusedWrites.clientsMax)
    #expect(try refused.blocks(origin(victim, 2), now: 0))
    #expect(try refused.blocks(origin(local, 2), now: 0))
    #expect(try !refused.blocks(origin("a-secret-random-name-1", 2), now: 0))
    #expect(try refused.blocks(origin("a-secret-random-name-2", 2), now: 0))
  }

  @Test func `a write that is blocked is remembered as refused itself`() throws {
    let order = WriteOrder()
    order.note(try origin(1), from: nil, WireError(.unavailable, "the journal failed"), now: 0)
    #expect(throws: WireError.self) { try order.check(origin(2), from: nil, now: 0) }
    try order.check(origin(1), from: nil, now: 0)
    order.note(try origin(1), from: nil, nil, now: 0)
    #expect(throws: WireError.self) { try order.check(origin(3), from: nil, now: 0) }
    // The repeat of a write that was made is not decided again, and says nothing about those before it.
    order.note(try origin(3), from: nil, nil, now: 0)
    #expect(throws: WireError.self) { try order.check(origin(3), from: nil, now: 0) }
    order.note(try origin(2), from: nil, nil, now: 0)
    #expect(throws: WireError.self) { try order.check(origin(4), from: nil, now: 0) }
    try order.check(origin(3), from: nil, now: 0)
    try order.check(origin(4), from: nil, now: 0)
    // Another error is the last word.
    order.note(try origin(5), from: nil, WireError(.overloaded, "later"), now: 0)
    #expect(throws: WireError.self) { try order.check(origin(6), from: nil, now: 0) }
    for number: Int64 in [5, 6] {
      order.note(try origin(number), from: nil, WireError(.permissionDenied, "no"), now: 0)
    }
    try order.check(origin(7), from: nil, now: 0)
    let refusal = order.admit(try origin(7), of: .init(), bytes: 1, by: nil, now: 0)
    #expect(refusal == nil)
  }

  @Test func `a write that is refused each time it comes keeps later ones waiting`() throws {
    var refused = RefusedWrites()
    let minute = RefusedWrites.orderMax
    for now in [0, minute - 1, 2 * minute - 2] {
      #expect(try now == 0 || refused.blocks(origin(4), now: now))
      refused.note(try origin(3), now: now)
    }
    // A later one that comes again says nothing about the first.
    refused.note(try origin(4), now: 3 * minute - 4)
    refused.note(try origin(4), now: 3 * minute - 3)
    #expect(try refused.blocks(origin(5), now: 3 * minute - 3))
    #expect(try !refused.blocks(origin(5), now: 3 * minute - 2))
  }
}
