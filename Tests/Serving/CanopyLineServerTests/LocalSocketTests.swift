import CanopyEngine
import CanopyTesting
import Foundation
import NIOCore
import NIOPosix
import ServiceLifecycle
import Testing

@testable import CanopyLineServer
@testable import CanopySession

@Suite(.timeLimit(.minutes(20))) struct LocalSocketTests {
  /// Runs a server that also listens in a folder, and shuts it down gracefully.
  private func withLocalServer(
    in folder: String, _ body: (LineParts) async throws -> Void
  ) async throws {
    let parts = try await LineParts()
    let engine = Task { await parts.run() }
    var configuration = LineServer.Configuration()
    configuration.port = 0
    configuration.threads = 1
    configuration.localSocketFolder = folder
    let (ready, announce) = AsyncStream.makeStream(of: Int.self)
    let server = LineServer(
      parts.operations, configuration: configuration, logger: parts.log.logger
    ) {
      announce.yield($1)
    }
    let group = ServiceGroup(services: [server], logger: parts.log.logger)
    let running = Task {
      defer { announce.finish() }
      try await group.run()
    }
    _ = await ready.first { _ in true }
    let result: Result<Void, any Error>
    do { result = .success(try await body(parts)) } catch { result = .failure(error) }
    await group.triggerGracefulShutdown()
    _ = await running.result
    parts.engine.stop()
    await engine.value
    try result.get()
  }

  private func withFolder(
    _ name: String = "data", _ body: (String) async throws -> Void
  ) async throws {
    let root = try TemporaryFolder()
    let folder = root.file(name)
    try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
    try await body(folder)
  }

  private func connect(in folder: String) async throws -> any Channel {
    try await LocalSocket.withPath(in: folder) { path in
      try await ClientBootstrap(group: MultiThreadedEventLoopGroup.singleton)
        .connect(unixDomainSocketPath: path).get()
    }
  }

  private func mode(_ path: String) -> UInt32? {
    var status = stat()
    return lstat(path, &status) == 0 ? UInt32(status.st_mode) : nil
  }

  @Test(arguments: ["data", String(repeating: "long/", count: 40) + "data"])
  func `only the server's user can connect, in any folder, while it runs`(
    _ name: String
  ) async throws {
    try await withFolder(name) { folder in
      let path = folder + "/canopy.sock"
      try await withLocalServer(in: folder) { _ in
        #expect(mode(path) == UInt32(S_IFSOCK) | 0o600)
        let channel = try await connect(in: folder)
        #expect(try await LocalSocket.isPeer(of: channel, among: [geteuid()]))
        #expect(try await !LocalSocket.isPeer(of: channel, among: [geteuid() + 1]))
        try await channel.close().get()
      }
      #expect(mode(path) == nil, "it goes with the server")
      await #expect(throws: (any Error).self) { _ = try await connect(in: folder) }
    }
  }

  @Test func `a socket that an earlier server left is replaced`() async throws {
    try await withFolder { folder in
      close(try await LocalSocket.bind(in: folder).handle)
      #expect(mode(folder + "/canopy.sock") != nil)
      try await withLocalServer(in: folder) { parts in
        try await connect(in: folder).close().get()
        #expect(!parts.log.lines.contains { $0.hasPrefix("warning") })
      }
    }
  }

  @Test func `a server that ends leaves the socket of another server`() async throws {
    try await withFolder { folder in
      try await withLocalServer(in: folder) { _ in
        try FileManager.default.moveItem(atPath: folder, toPath: folder + "-before")
        try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: false)
        close(try await LocalSocket.bind(in: folder).handle)
      }
      #expect(mode(folder + "/canopy.sock") != nil)
    }
  }

  @Test func `a file that is not a socket stays, and the server logs it and goes on`() async throws
  {
    try await withFolder { folder in
      let path = folder + "/canopy.sock"
      try Data("mine".utf8).write(to: URL(fileURLWithPath: path))
      try await withLocalServer(in: folder) { parts in
        #expect(parts.log.lines.contains { $0.contains("is not a socket; move it elsewhere") })
      }
      #expect(try String(contentsOfFile: path, encoding: .utf8) == "mine")
    }
  }
}
