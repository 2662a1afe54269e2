import CanopyTesting
import CanopyTree
import Testing

@testable import CanopyEngine

struct ClientWritesTests {
  @Test func `of more clients than the bound those that wrote longest ago are forgotten`() throws {
    var writes = ClientWrites()
    for number in 0..<Limits.clientsMax {
      writes.note(try Self.write(by: "c\(number)", at: Int64(number)))
    }
    #expect(writes.count == Limits.clientsMax)
    #expect(throws: RepeatedWrite.self) { try writes.check(Self.write(by: "c0", at: 0).origin) }
    writes.note(try Self.write(by: "one more", at: Int64(Limits.clientsMax)))
    #expect(writes.count == Limits.clientsMax - Limits.clientsMax / 10 + 1)
    try writes.check(Self.write(by: "c0", at: 0).origin)
    let last = try Self.write(by: "c\(Limits.clientsMax - 1)", at: 0).origin
    #expect(throws: RepeatedWrite.self) { try writes.check(last) }
  }

  @Test func `random writes are remembered until their client has seen more answers`() throws {
    var random = SeededGenerator(printingSeedFor: "ClientWritesTests")
    for _ in 0..<200 {
      var writes = ClientWrites()
      var naive: Set<Int64> = []
      var seen: Int64 = 0
      for sequence in 1...60 {
        let highest: Int64 = Bool.random(using: &random) ? 20 : .max
        let number = Int64.random(in: 1...highest, using: &random)
        let told = Int64.random(in: 0..<number, using: &random)
        let origin = try WriteOrigin(client: "c", number: number, seen: told)
        if naive.contains(number) {
          #expect(throws: RepeatedWrite.self) { try writes.check(origin) }
          continue
        }
        // One that the client had said to need no more may be remembered or not.
        if number > seen { try writes.check(origin) }
        writes.note(ClientWrite(origin: origin, sequence: Int64(sequence), time: 0))
        seen = max(seen, told)
        naive = naive.filter { $0 > seen }
        if number > seen { naive.insert(number) }
      }
    }
  }

  @Test func `writes that come below the number seen do not pile up`() throws {
    var writes = ClientWrites()
    let count = Int64(3 * Limits.clientWritesMax)
    writes.note(try Self.write(count + 1, seen: count))
    for number in 1...count {
      let write = try Self.write(number, seen: number - 1)
      try writes.check(write.origin)
      writes.note(write)
      try #require(writes.remembered(of: "c") <= Limits.clientWritesMax)
    }
  }

  private static func write(_ number: Int64, seen: Int64) throws -> ClientWrite {
    ClientWrite(
      origin: try WriteOrigin(client: "c", number: number, seen: seen), sequence: number, time: 0)
  }

  private static func write(by client: String, at time: Int64) throws -> ClientWrite {
    let client = client.replacing(" ", with: "-")
    return ClientWrite(
      origin: try WriteOrigin(client: client, number: 1, seen: 0), sequence: time + 1, time: time)
  }
}
