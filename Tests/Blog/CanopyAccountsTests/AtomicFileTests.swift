import CanopySystem
import CanopyTesting
import Foundation
import Testing

/// The replacement of files, with which the administrator token, the rules and exports are written.
@Suite struct AtomicFileTests {
  private struct Refusal: Error {}

  /// Runs a test with a temporary folder.
  private func withFolder(_ body: (String) throws -> Void) throws {
    let folder = try TemporaryFolder()
    try body(folder.path)
    withExtendedLifetime(folder) {}
  }

  private func names(in folder: String) throws -> [String] {
    try FileManager.default.contentsOfDirectory(atPath: folder).sorted()
  }

  @Test func `a file is created, replaced and removed, and no temporary file remains`() throws {
    try withFolder { folder in
      let path = folder + "/file"
      for text in ["first", "", "second"] {
        try AtomicFile.replace(path, with: Array(text.utf8))
        #expect(try String(contentsOfFile: path, encoding: .utf8) == text)
        #expect(try names(in: folder) == ["file"])
      }
      let mode = try FileManager.default.attributesOfItem(atPath: path)[.posixPermissions]
      #expect(mode as? Int == 0o600)
      try AtomicFile.remove(path)
      try AtomicFile.remove(path)
      #expect(try names(in: folder) == [])
    }
  }

  @Test func `a temporary file that a crash has left is removed first`() throws {
    try withFolder { folder in
      try Data("left".utf8).write(to: URL(fileURLWithPath: folder + "/file.new"))
      try AtomicFile.replace(folder + "/file", with: Array("new".utf8))
      #expect(try names(in: folder) == ["file"])
    }
  }

  @Test func `an error while writing leaves the old file and no temporary file`() throws {
    try withFolder { folder in
      let path = folder + "/file"
      try AtomicFile.replace(path, with: Array("old".utf8))
      #expect(throws: Refusal.self) {
        try AtomicFile.replace(path, temporary: path + ".part") { write in
          try Array("half".utf8).withUnsafeBytes { try write($0) }
          throw Refusal()
        }
      }
      #expect(try String(contentsOfFile: path, encoding: .utf8) == "old")
      #expect(try names(in: folder) == ["file"])
    }
  }

  @Test func `a temporary file of another process is not touched`() throws {
    try withFolder { folder in
      let other = folder + "/file.part"
      try Data("other".utf8).write(to: URL(fileURLWithPath: other))
      let error = #expect(throws: FileError.self) {
        try AtomicFile.replace(folder + "/file", temporary: other) { _ in }
      }
      #expect(error?.operation == "create" && error?.code == EEXIST)
      #expect(try String(contentsOfFile: other, encoding: .utf8) == "other")
    }
  }

  @Test func `the error names the operation, the file and the reason`() throws {
    try withFolder { folder in
      let path = folder + "/missing/file"
      let error = #expect(throws: FileError.self) { try AtomicFile.replace(path, with: []) }
      #expect(error?.operation == "create" && error?.path == path + ".new")
      #expect(error?.reason == "No such file or directory")
      try FileManager.default.createDirectory(
        atPath: folder + "/file", withIntermediateDirectories: false)
      let refused = #expect(throws: FileError.self) {
        try AtomicFile.replace(folder + "/file", with: [])
      }
      #expect(refused?.operation == "replace")
      #expect(try names(in: folder) == ["file"])
    }
  }
}
