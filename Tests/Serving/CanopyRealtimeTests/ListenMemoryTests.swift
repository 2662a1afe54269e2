import CanopySession
import CanopyTesting
import CanopyWire
import Testing

@testable import CanopyRealtime

/// The memory of listeners.
@Suite(.timeLimit(.minutes(20))) struct ListenMemoryTests {
  /// - Parameters:
  ///   - keys: the keys of the path.
  ///   - bytes: the bytes that a listener takes, as measured.
  @Test(arguments: [(keys: 2, bytes: 5_200), (30, 15_100)])
  func `a listener is charged with the memory that it takes`(keys: Int, bytes: Int) async throws {
    try await withRealtime(.inProcess) { server in
      let client = try await server.connect()
      let memory = server.parts.operations.memory
      let before = memory.used
      for number in 1...50 {
        let path = "/a" + (1..<keys).map { "/k0-\(number)-\($0)" }.joined()
        try await client.request(number, "q", #"{"p":"\#(path)","h":""}"#)
      }
      #expect(memory.used - before >= 50 * bytes - MemoryBudget.reportBytes)
      #expect(memory.used - before < 2 * 50 * bytes)
      for number in 1...50 {
        let path = "/a" + (1..<keys).map { "/k0-\(number)-\($0)" }.joined()
        try await client.request(number, "n", #"{"p":"\#(path)"}"#)
      }
      #expect(memory.used - before < 2 * MemoryBudget.reportBytes)
    }
  }
}
