import CanopyEngine
import CanopySession
import CanopyTesting
import Testing

/// The groups in which the long work of connections takes turns.
struct TurnGroupTests {
  private final class Connection {}

  @Test(arguments: [
    ("203.0.113.5", "203.0.113.5", true), ("203.0.113.5", "203.0.113.6", false),
    ("2001:db8::1", "2001:db8::2", true), ("2001:db8::1", "2001:db8:0:1::1", false),
    ("::ffff:203.0.113.5", "203.0.113.5", true),
  ])
  func `the connections of a remote network share their turns`(
    first: String, second: String, areShared: Bool
  ) {
    let connections = [Connection(), Connection()]
    let groups = zip(connections, [first, second]).map {
      Operations.turns(of: ObjectIdentifier($0), at: $1)
    }
    #expect(groups[0].network != nil && groups[1].network != nil)
    #expect((groups[0].network == groups[1].network) == areShared)
    #expect(groups[0].connection != groups[1].connection)
  }

  @Test(arguments: ["127.0.0.1", "127.9.0.1", "::1", "local", ""])
  func `each connection from this machine has turns of its own`(address: String) {
    let connection = Connection()
    #expect(Operations.turns(of: ObjectIdentifier(connection), at: address).network == nil)
  }
}
