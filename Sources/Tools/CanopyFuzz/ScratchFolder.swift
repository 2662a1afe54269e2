internal import Foundation
internal import Synchronization

/// A folder for a decoder of files. Only one input at a time uses it, and the end of the process removes it.
struct ScratchFolder {
  let path: String

  /// The folder of this process, which contains the others.
  private static let parent = makeParent()

  /// The folders that no input uses now, and the count of all.
  private static let folders = Mutex((free: [ScratchFolder](), count: 0))

  /// Calls `body` with a folder that no other call uses until it returns.
  static func withFolder<Result>(_ body: (ScratchFolder) throws -> Result) throws -> Result {
    let folder = try take()
    defer { folder.giveBack() }
    return try body(folder)
  }

  /// Returns a folder for one use at a time, until `giveBack`.
  static func take() throws -> ScratchFolder {
    guard let parent else { throw Finding(description: "the temporary folder cannot be created") }
    return try folders.withLock { folders in
      if let folder = folders.free.popLast() { return folder }
      let path = "\(parent)/\(folders.count)"
      try expect(mkdir(path, 0o700) == 0, "\(path) cannot be created")
      folders.count += 1
      return ScratchFolder(path: path)
    }
  }

  func giveBack() { ScratchFolder.folders.withLock { $0.free.append(self) } }

  private static func makeParent() -> String? {
    var template = Array((NSTemporaryDirectory() + "/canopy-fuzz-XXXXXX").utf8CString)
    guard mkdtemp(&template) != nil else { return nil }
    atexit { ScratchFolder.parent.map { try? FileManager.default.removeItem(atPath: $0) } }
    return String(decoding: template.dropLast().map { UInt8(bitPattern: $0) }, as: UTF8.self)
  }

  func write(_ bytes: [UInt8], to name: String) throws {
    let file = open(path + "/" + name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0o600)
    guard file >= 0 else { throw Finding(description: "\(name) cannot be created") }
    defer { close(file) }
    let count = bytes.withUnsafeBytes { Foundation.write(file, $0.baseAddress, $0.count) }
    try expect(count == bytes.count, "\(name) cannot be written")
  }
}
