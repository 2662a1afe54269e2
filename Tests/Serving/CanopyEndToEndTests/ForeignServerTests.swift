import CanopySQLite
import CanopyTesting
import Foundation
import Testing

/// `canopy backup` beside a program that listens in place of the server.
@Suite(.timeLimit(.minutes(20)), .serialized) struct ForeignServerTests {
  /// Answers one connection: each line with `{}`, and `BACKUP` with a reply.
  private static func answer(_ listener: Int32, backup reply: String) {
    let client = accept(listener, nil, nil)
    guard client >= 0 else { return }
    defer { close(client) }
    var line: [UInt8] = []
    var byte: UInt8 = 0
    while read(client, &byte, 1) == 1 {
      guard byte == UInt8(ascii: "\n") else {
        line.append(byte)
        continue
      }
      let isBackup = String(decoding: line, as: UTF8.self).hasPrefix("BACKUP")
      let text = Array("+\(isBackup ? reply : "{}")\r\n".utf8)
      _ = write(client, text, text.count)
      line = []
    }
  }

  /// Listens on a socket of the file system.
  private static func listen(on path: String) throws -> Int32 {
    unlink(path)
    let listener = socket(AF_UNIX, Int32(SOCK_STREAM.rawValue), 0)
    var address = sockaddr_un()
    address.sun_family = sa_family_t(AF_UNIX)
    try #require(path.utf8.count < MemoryLayout.size(ofValue: address.sun_path))
    withUnsafeMutableBytes(of: &address.sun_path) { $0.copyBytes(from: path.utf8) }
    let status = withUnsafePointer(to: &address) { pointer in
      pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
        bind(listener, $0, socklen_t(MemoryLayout<sockaddr_un>.size))
      }
    }
    try #require(status == 0 && Foundation.listen(listener, 1) == 0)
    return listener
  }

  @Test func `only a regular file with the name of a backup is moved`() async throws {
    let folder = try TemporaryFolder()
    let data = folder.file("data")
    let server = try await ServerProcess(data: data)
    #expect(try await server.terminate() == 0)
    let lock = try FolderLock(folder: data)
    defer { lock.release() }
    try FileManager.default.createDirectory(
      atPath: data + "/backups", withIntermediateDirectories: false)
    try Data("secret".utf8).write(to: URL(filePath: folder.file("secret")))
    let name = "requested-20261130T160000Z-1.tar"
    let (out, place) = (folder.file("out.tar"), data + "/backups/" + name)
    let listener = try Self.listen(on: data + "/canopy.sock")
    defer { close(listener) }
    func run(_ file: String) async throws -> Command.Ending {
      let reply = "{\"file\":\"\(file)\",\"seq\":1,\"bytes\":6}"
      let thread = Thread { Self.answer(listener, backup: reply) }
      thread.start()
      return try await Command.run(["backup", "--data", data, out])
    }
    for file in ["../../secret", "secret", "../backups/\(name)", folder.file("secret"), ""] {
      let ending = try await run(file)
      #expect(ending.isSentence, "\(file): \(ending)")
    }
    try FileManager.default.createSymbolicLink(
      atPath: place, withDestinationPath: folder.file("secret"))
    let ending = try await run(name)
    #expect(ending.isSentence && ending.errors.contains("not a regular file"), "\(ending)")
    #expect(try folder.files() == ["data", "secret"])
    try FileManager.default.removeItem(atPath: place)
    try Data("backup".utf8).write(to: URL(filePath: place))
    let moved = try await run(name)
    #expect(moved.status == 0, "\(moved)")
    #expect(try folder.files() == ["data", "out.tar", "secret"])
  }
}
