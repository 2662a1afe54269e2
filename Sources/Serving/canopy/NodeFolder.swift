import CanopySQLite
import CanopySystem
import CanopyTree
import Foundation

/// The data folder of a node whose data is in PostgreSQL. It has the name of the node, a copy of the administrator's token,
/// and the socket for commands on the machine.
struct NodeFolder {
  /// The file with the name of the node.
  static let nameFile = "node"

  /// The name of the node: random at the first start, so that no other node has it.
  let name: String
  private let lock: FolderLock

  /// Opens the folder, and creates it and the name if they are missing.
  ///
  /// - Throws: `Failure` if the folder has a database of its own, which the node would not serve; `StoreError` if another
  ///   process uses the folder.
  init(_ folder: String) throws {
    do {
      try FileManager.default.createDirectory(
        atPath: folder, withIntermediateDirectories: true,
        attributes: [.posixPermissions: 0o700])
    } catch {
      throw Failure(
        "the data folder \(folder) cannot be created: \(error.localizedDescription)")
    }
    guard !FileManager.default.fileExists(atPath: folder + "/canopy.sqlite") else {
      throw Failure(
        "\(folder) has a database of its own, which a server with --postgres does not read: move its data with canopy "
          + "migrate, and name a new folder")
    }
    lock = try FolderLock(folder: folder)
    let path = folder + "/" + Self.nameFile
    if let bytes = FileManager.default.contents(atPath: path) {
      let text = String(decoding: bytes, as: UTF8.self).trimmingCharacters(in: .newlines)
      guard 1...64 ~= text.utf8.count, text.utf8.allSatisfy({ Self.allowed.contains($0) }) else {
        throw Failure(
          "\(path) is not the name of a node, which has 1 to 64 of the characters a to z, 0 to 9 and -: correct it, or "
            + "remove it if the node will not start again under its old name")
      }
      name = text
      return
    }
    let random = (0..<2).map { _ in String(Composition.random(), radix: 16) }
    name = "node-" + random.joined()
    do throws(FileError) {
      try AtomicFile.replace(path, with: Array((name + "\n").utf8))
    } catch {
      throw Failure("\(error.path) cannot be written (\(error.operation): \(error.reason))")
    }
  }

  private static let allowed = Set("abcdefghijklmnopqrstuvwxyz0123456789-".utf8)

  /// Releases the folder.
  func release() { lock.release() }
}
