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

  private static func write(by client: String, at time: Int64) throws -> ClientWrite {
    let client = client.replacing(" ", with: "-")
    return ClientWrite(
      origin: try WriteOrigin(client: client, number: 1, seen: 0), sequence: time + 1, time: time)
  }
}
