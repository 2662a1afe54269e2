import CanopyEngine
import CanopyTree
import CanopyWire
import Testing

@testable import CanopySession

/// The memory of requests that wait.
struct WaitingMemoryTests {
  private func bytes(_ text: String) -> Int {
    var text = text
    return text.withUTF8 { Request.memoryBytes(text: UnsafeRawBufferPointer($0)) }
  }

  @Test func `a read that takes long is charged with its path and its query until it is answered`()
    throws
  {
    let key = String(repeating: "k", count: 700)
    let path = try Path((0..<30).map { key + "\($0)" }.joined(separator: "/"))
    var options = GetOptions()
    options.query = try Query(order: .child(path))
    for read in [ReadRequest.get(Location(path), options), .count(path, options.query)] {
      var session = Session(limits: Limits())
      session.receive(.read(.ping), bytes: 10)
      while session.nextAction() != nil {}
      let slot = session.postponeRead(.atLeast(1, read))
      #expect(session.ledger.requests >= 2 * 30 * 700)
      session.finish(slot, Session.Completion(.null))
      #expect(session.ledger.requests == 0)
    }
  }

  @Test func `a long text counts twice, because the journal has it as well`() {
    let most = Operations.bytesEncodedAtOnceMax
    let short = bytes("\"" + String(repeating: "x", count: most - 3) + "\"")
    let long = bytes("\"" + String(repeating: "x", count: most - 2) + "\"")
    #expect(long - short == 1 + most)
  }

  @Test func `a commit that would be too large is an error of the client`() {
    let error = WireError(EngineError.commitTooLarge)
    #expect(error == WireError(.tooLarge, EngineError.commitTooLarge.sentence))
  }
}
