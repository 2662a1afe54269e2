import CanopyAccounts
import CanopyTesting
import CanopyTree
import Foundation
import Testing

/// The writes of a killed process.
@Suite(.timeLimit(.minutes(20))) struct KilledProcessTests {
  /// Starts a `pending-client`.
  ///
  /// - Returns: the process, its output, and its end.
  private func start(
    _ backend: Backend, _ folder: String, writes: Int, _ flags: String...
  ) throws -> (process: Process, printed: Received<String>, ended: Received<Int32>) {
    let (printed, ended) = (Received<String>(), Received<Int32>())
    let process = Process()
    // The program is beside the test program.
    process.executableURL = URL(filePath: CommandLine.arguments[0]).deletingLastPathComponent()
      .appending(path: "CanopyClientBench")
    process.arguments =
      [
        "pending-client", "--port", "\(backend.port)", "--folder", folder, "--writes", "\(writes)",
      ] + flags
    // With the other variables: a sanitizer has its options there.
    process.environment = ProcessInfo.processInfo.environment.merging(
      ["CANOPY_TOKEN": backend.parts.administratorToken.text]
    ) { $1 }
    let output = Pipe()
    process.standardOutput = output
    PipeReader.start(output) { bytes in
      if !bytes.isEmpty { printed.add(String(decoding: bytes, as: UTF8.self)) }
    }
    process.terminationHandler = { ended.add($0.terminationStatus) }
    try process.run()
    return (process, printed, ended)
  }

  @Test func `each pending write of a killed process is applied once`() async throws {
    try await withBackend { backend in
      let temporaryFolder = try TemporaryFolder()
      let folder = temporaryFolder.file("client")
      let gate = backend.parts.journal.gate
      gate.hold()
      let first = try start(backend, folder, writes: 50)
      // The server has received the first and answered none; the client has recorded all.
      await gate.reached()
      await first.printed.wait { $0.joined() == "recorded\n" }
      kill(first.process.processIdentifier, SIGKILL)
      #expect(await first.ended.wait(for: 1) == [SIGKILL])
      gate.open()
      for _ in 1...2 {
        let next = try start(backend, folder, writes: 0)
        #expect(await next.ended.wait(for: 1) == [0])
      }
      let pending = try backend.node("pending")
      #expect(pending.childCount == 50)
      for number in 1...50 { #expect(pending.child(try Key("n\(number)")) == 1) }
    }
  }

  @Test(arguments: [1, 50])
  func `a write survives the end of the process as soon as its call has returned`(_ count: Int)
    async throws
  {
    try await withBackend { backend in
      let temporaryFolder = try TemporaryFolder()
      let folder = temporaryFolder.file("client")
      backend.parts.journal.gate.hold()
      // The process ends itself by the signal directly after the last call.
      let first = try start(backend, folder, writes: count, "--kill")
      #expect(await first.ended.wait(for: 1) == [SIGKILL])
      backend.parts.journal.gate.open()
      let next = try start(backend, folder, writes: 0)
      #expect(await next.ended.wait(for: 1) == [0])
      let pending = try backend.node("pending")
      #expect(pending.childCount == count)
      for number in 1...count { #expect(pending.child(try Key("n\(number)")) == 1) }
    }
  }
}
