import CanopyTesting
import CanopyTree
import Testing

@testable import CanopyEngine

struct ClientWritesTests {
  @Test func `of more clients than the bound those that wrote longest ago are forgotten`() throws {
    #expect(ClientWrites().writesMax == Limits.rememberedWritesMax)
    let writesMax = 2_000
    var writes = ClientWrites(writesMax: writesMax)
    for number in 0..<writesMax {
      writes.note(try Self.write(by: "c\(number)", at: Int64(number)))
    }
    #expect(writes.count == writesMax)
    #expect(throws: RepeatedWrite.self) { try writes.admit(Self.write(by: "c0", at: 0).origin) }
    writes.note(try Self.write(by: "one more", at: Int64(writesMax)))
    #expect(writes.count == writesMax)
    _ = try writes.admit(Self.write(by: "c0", at: 0).origin)
    let last = try Self.write(by: "c\(writesMax - 1)", at: 0).origin
    #expect(throws: RepeatedWrite.self) { try writes.admit(last) }
    // Only one client was forgotten.
    let second = try Self.write(by: "c1", at: 0).origin
    #expect(throws: RepeatedWrite.self) { try writes.admit(second) }
  }

  @Test func `writes that are read in any order are forgotten by their time`() throws {
    let stored = try (0..<10).map { try Self.write(by: "c\($0)", at: Int64($0)) }
    var writes = ClientWrites(stored.reversed(), writesMax: 4)
    #expect(writes.count == 4)
    for write in stored.suffix(4) {
      #expect(throws: RepeatedWrite.self) { try writes.admit(write.origin) }
    }
    _ = try writes.admit(stored[5].origin)
  }

  @Test func `random writes are made once, and none at or below the number seen`() throws {
    var random = SeededGenerator(printingSeedFor: "ClientWritesTests")
    for _ in 0..<200 {
      var writes = ClientWrites()
      var made: Set<Int64> = []
      var seen: Int64 = 0
      for sequence in 1...60 {
        let highest: Int64 = Bool.random(using: &random) ? 20 : .max
        let number = Int64.random(in: 1...highest, using: &random)
        let reported = Int64.random(in: 0..<number, using: &random)
        let origin = try WriteOrigin(client: "c", number: number, seen: reported)
        if number <= seen {
          #expect(throws: EngineError.alreadyAnswered(number)) { try writes.admit(origin) }
        } else if made.contains(number) {
          #expect(throws: RepeatedWrite.self) { try writes.admit(origin) }
        } else {
          let admitted = try writes.admit(origin)
          seen = max(seen, reported)
          #expect(admitted.seen == seen)
          // A refused write counts as seen as well, and is not remembered.
          guard random.oneIn(2) else { continue }
          writes.note(ClientWrite(origin: admitted, sequence: Int64(sequence), time: 0))
          made.insert(number)
          if random.oneIn(5) {
            writes.rollBack([
              Commit(sequence: Int64(sequence), time: 0, assignments: [], origin: admitted)
            ])
            made.remove(number)
          }
        }
        #expect(writes.remembered(of: "c") == made.count { $0 > seen })
      }
    }
  }

  @Test func `the number seen outlives all writes of its client`() throws {
    var writes = ClientWrites()
    writes.note(try Self.write(1, seen: 0))
    writes.note(try Self.write(9, seen: 8))
    writes.rollBack([
      Commit(sequence: 1, time: 0, assignments: [], origin: try Self.write(1, seen: 0).origin),
      Commit(sequence: 9, time: 0, assignments: [], origin: try Self.write(9, seen: 8).origin),
    ])
    #expect(writes.remembered(of: "c") == 0)
    for number: Int64 in [1, 8] {
      #expect(throws: EngineError.alreadyAnswered(number)) {
        try writes.admit(Self.write(number, seen: 0).origin)
      }
    }
    #expect(try writes.admit(Self.write(9, seen: 0).origin).seen == 8)
  }

  @Test func `clients whose writes are all refused displace no others, and are bounded`() throws {
    var writes = ClientWrites()
    writes.note(try Self.write(1, seen: 0))
    for number in 0..<ClientWrites.marksMax {
      _ = try writes.admit(WriteOrigin(client: "r\(number)", number: 3, seen: 2))
    }
    #expect(writes.markCount == ClientWrites.marksMax)
    #expect(throws: EngineError.alreadyAnswered(2)) {
      try writes.admit(WriteOrigin(client: "r0", number: 2, seen: 0))
    }
    _ = try writes.admit(WriteOrigin(client: "one-more", number: 3, seen: 2))
    #expect(writes.markCount == ClientWrites.marksMax)
    // Those that were set last are still known.
    #expect(throws: EngineError.alreadyAnswered(2)) {
      try writes.admit(WriteOrigin(client: "one-more", number: 2, seen: 0))
    }
    #expect(writes.count == 1)
    #expect(writes.remembered(of: "c") == 1)
  }

  @Test func `one owner with many clients displaces only its own`() throws {
    let writesMax = 2_000
    var writes = ClientWrites(writesMax: writesMax)
    var owners: [ClientWrite] = []
    for index in 0..<100 {
      var write = try Self.write(by: "own\(index)", at: Int64(index))
      write.origin.owner = "owner\(index % 10)"
      writes.note(write)
      owners.append(write)
    }
    for number in 0..<2 * writesMax {
      var write = try Self.write(by: "m\(number)", at: 1_000 + Int64(number))
      write.origin.owner = "mallory"
      writes.note(write)
    }
    #expect(writes.count <= writesMax)
    for write in owners {
      #expect(throws: RepeatedWrite(sequence: write.sequence)) { try writes.admit(write.origin) }
    }
    var last = try Self.write(by: "m\(2 * writesMax - 1)", at: 0).origin
    last.owner = "mallory"
    #expect(throws: RepeatedWrite.self) { try writes.admit(last) }
  }

  @Test func `clients without a login displace only those of their own network`() throws {
    let writesMax = 2_000
    var writes = ClientWrites(writesMax: writesMax)
    func write(by client: String, from network: String?, _ time: Int64) throws -> ClientWrite {
      var write = try Self.write(by: client, at: time)
      write.origin.owner = WriteOrigin.anonymousOwner
      write.origin.network = network
      return write
    }
    let others = [
      try write(by: "remote", from: "198.51.100.7", 0), try write(by: "local", from: nil, 0),
    ]
    for write in others { writes.note(write) }
    let first = try write(by: "m0", from: "192.0.2.1", 1)
    for number in 0...writesMax {
      writes.note(try write(by: "m\(number)", from: "192.0.2.1", Int64(number) + 1))
    }
    for write in others {
      // The network is not part of the identity: the client may send the write again from another one.
      var origin = write.origin
      origin.network = "203.0.113.5"
      #expect(throws: RepeatedWrite(sequence: write.sequence)) { try writes.admit(origin) }
    }
    _ = try writes.admit(first.origin)
  }

  @Test func `the writes of all clients together are bounded, and others keep theirs`() throws {
    let writesMax = 1_000
    var writes = ClientWrites(writesMax: writesMax)
    var sequence: Int64 = 1
    func note(_ owner: String, _ client: String, _ number: Int64) throws -> ClientWrite {
      var write = try Self.write(by: client, at: 0)
      write.origin.owner = owner
      write.origin.number = number
      write.sequence = sequence
      sequence += 1
      writes.note(write)
      return write
    }
    let honest = try (1...50).map { try note("ada", "one", $0) }
    var mallory: [ClientWrite] = []
    // A new name whenever the last one has all the writes that it may have, and no reply is reported as seen.
    for index in 0..<5 * writesMax {
      mallory.append(
        try note("mallory", "m\(index / 400)", Int64(index % 400 + 1)))
      #expect(writes.entryCount <= writesMax)
    }
    for write in honest {
      #expect(throws: RepeatedWrite(sequence: write.sequence)) { try writes.admit(write.origin) }
    }
    // Its newest writes are known, and an old one is made again.
    for write in mallory.suffix(400) {
      #expect(throws: RepeatedWrite(sequence: write.sequence)) { try writes.admit(write.origin) }
    }
    #expect(try writes.admit(mallory[0].origin).seen == 0)
    #expect(writes.entryCount > writesMax - 400)
  }

  @Test func `a client with too many writes loses the oldest ones`() throws {
    var writes = ClientWrites(writesMax: 80)
    for number in 1...81 as ClosedRange<Int64> { writes.note(try Self.write(number, seen: 0)) }
    #expect(writes.remembered(of: "c") == 71 && writes.entryCount == 71)
    _ = try writes.admit(Self.write(10, seen: 0).origin)
    #expect(throws: RepeatedWrite(sequence: 11)) {
      try writes.admit(Self.write(11, seen: 0).origin)
    }
    // Seen replies and failed commits make room.
    _ = try writes.admit(Self.write(90, seen: 60).origin)
    #expect(writes.entryCount == 21)
    writes.rollBack(try (71...81).map { try Self.commit($0) })
    #expect(writes.entryCount == 10)
    writes.rollBack(try (61...70).map { try Self.commit($0) })
    #expect(writes.entryCount == 1)
  }

  @Test func `owners whose names are canonically equivalent have writes of their own`() throws {
    var writes = ClientWrites()
    var first = try WriteOrigin(client: "k", number: 3, seen: 2)
    first.owner = "usr\u{E9}"
    var second = first
    second.owner = "usre\u{301}"
    writes.note(ClientWrite(origin: try writes.admit(first), sequence: 1, time: 0))
    writes.note(ClientWrite(origin: try writes.admit(second), sequence: 2, time: 0))
    #expect(writes.count == 2)
    #expect(throws: RepeatedWrite(sequence: 1)) { try writes.admit(first) }
    #expect(throws: RepeatedWrite(sequence: 2)) { try writes.admit(second) }
    // So have the marks of those without a remembered write.
    first.client = "l"
    second.client = "l"
    _ = try writes.admit(first)
    second.number = 2
    second.seen = 0
    _ = try writes.admit(second)
    #expect(writes.markCount == 1)
  }

  @Test func `one owner whose writes are refused displaces no marks of others`() throws {
    var writes = ClientWrites()
    var mine = try WriteOrigin(client: "mine", number: 3, seen: 2)
    mine.owner = "ada"
    _ = try writes.admit(mine)
    for number in 0..<2 * ClientWrites.marksMax {
      var other = try WriteOrigin(client: "m\(number)", number: 3, seen: 2)
      other.owner = WriteOrigin.anonymousOwner
      _ = try writes.admit(other)
    }
    #expect(writes.markCount <= ClientWrites.marksMax)
    mine.number = 2
    mine.seen = 0
    #expect(throws: EngineError.alreadyAnswered(2)) { try writes.admit(mine) }
  }

  @Test func `writes that an earlier version stored without an owner are recognized`() throws {
    for name in ["k", "a-name-that-is-secret"] {
      var origin = try WriteOrigin(client: name, number: 4, seen: 2)
      var writes = ClientWrites([ClientWrite(origin: origin, sequence: 7, time: 0)])
      origin.owner = "ada"
      #expect(throws: RepeatedWrite(sequence: 7)) { try writes.admit(origin) }
      origin.number = 2
      origin.seen = 0
      #expect(throws: EngineError.alreadyAnswered(2)) { try writes.admit(origin) }
      origin.number = 5
      writes.note(ClientWrite(origin: try writes.admit(origin), sequence: 8, time: 0))
      #expect(throws: RepeatedWrite(sequence: 8)) { try writes.admit(origin) }
      #expect(writes.count == 1)
    }
  }

  private static func write(_ number: Int64, seen: Int64) throws -> ClientWrite {
    ClientWrite(
      origin: try WriteOrigin(client: "c", number: number, seen: seen), sequence: number, time: 0)
  }

  private static func commit(_ number: Int64) throws -> Commit {
    Commit(
      sequence: number, time: 0, assignments: [], origin: try write(number, seen: 0).origin)
  }

  private static func write(by client: String, at time: Int64) throws -> ClientWrite {
    let client = client.replacing(" ", with: "-")
    return ClientWrite(
      origin: try WriteOrigin(client: client, number: 1, seen: 0), sequence: time + 1, time: time)
  }
}
