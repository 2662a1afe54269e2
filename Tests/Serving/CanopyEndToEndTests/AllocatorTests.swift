import CanopyTesting
import Foundation
import Testing

/// The parameters of the memory allocator, which a program reads only when it begins.
@Suite(.timeLimit(.minutes(5))) struct AllocatorTests {
  /// Returns the variables of a process with which its present program began.
  private static func environment(of pid: Int32) throws -> [Substring] {
    try String(contentsOfFile: "/proc/\(pid)/environ", encoding: .utf8).split(separator: "\0")
  }

  @Test func `a server starts itself once more with larger caches, under the same name and id`()
    async throws
  {
    let folder = try TemporaryFolder()
    let server = try await ServerProcess(data: folder.path + "/data")
    let variables = try Self.environment(of: server.pid)
    #expect(variables.contains("GLIBC_TUNABLES=glibc.malloc.tcache_count=256"))
    #expect(try String(contentsOfFile: "/proc/\(server.pid)/comm", encoding: .utf8) == "canopy\n")
    let client = try await server.connect()
    try await client.expect("PING", "+\"PONG\"")
    #expect(try await server.terminate() == 0)
  }

  @Test func `a server keeps the parameters that it is given`() async throws {
    let folder = try TemporaryFolder()
    let given = "glibc.malloc.tcache_count=3"
    let server = try await ServerProcess(
      data: folder.path + "/data", environment: ["GLIBC_TUNABLES": given])
    #expect(try Self.environment(of: server.pid).contains("GLIBC_TUNABLES=" + given))
    #expect(try await server.terminate() == 0)
  }
}
