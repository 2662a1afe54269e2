import ArgumentParser
import CanopySQLite
import CanopyTree
import CanopyWire
import Foundation

struct Import: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    abstract: "Replace the tree, or one path of it, with JSON.",
    discussion: """
      The command reads and checks the whole file, then stores it in one transaction: all of it or \
      nothing. Stop the server of the folder first. Afterwards clients cannot resume from earlier \
      commits; they receive the present state. If an object of the file has a key twice, the last \
      value counts.
      """)

  @OptionGroup var folder: FolderOption
  @OptionGroup var option: NamespaceOption
  @Argument(help: "The path to replace.") var path = "/"
  @Argument(help: "The file to read; - is stdin.") var file = "-"

  func run() async throws {
    try await Failure.explaining {
      let path = try Path(path)
      // The default namespace is created if it is missing.
      let target =
        option.name == .default ? try folder.folder() : try option.existingFolder(in: folder)
      let node = try read()
      _ = try Write.set(Location(path), WriteValue(node))
      let store = try SQLiteStore(folder: target)
      if store.isTailDamaged { Output.note(Self.noteOnTail(of: target)) }
      do {
        try await store.replace(path, with: node, at: Composition.now()) { rows in
          Output.progress("stored \(rows) rows")
        }
      } catch {
        try? store.close()
        throw error
      }
      try store.close()
      Output.progress("stored", isDone: true)
    }
  }

  /// Returns the line about a `canopy.tail` that the command replaces.
  private static func noteOnTail(of folder: String) -> String {
    "\(folder)/canopy.tail was damaged, so it could not prove that the last commits were there; it is written again"
  }

  private func read() throws -> Node {
    let handle: FileHandle
    if file == "-" {
      handle = .standardInput
    } else {
      guard let opened = FileHandle(forReadingAtPath: file) else {
        throw Failure("\(file) cannot be read: \(String(cString: strerror(errno)))")
      }
      handle = opened
    }
    let descriptor = handle.fileDescriptor
    var count = 0
    var reader = JSONReader(source: { buffer in
      var got = Foundation.read(descriptor, buffer.baseAddress, buffer.count)
      while got < 0, errno == EINTR {
        got = Foundation.read(descriptor, buffer.baseAddress, buffer.count)
      }
      guard got >= 0 else {
        throw Failure("the input cannot be read: \(String(cString: strerror(errno)))")
      }
      count += got
      if count / 4_194_304 != (count - got) / 4_194_304 {
        Output.progress("read \(Output.megabytes(count))")
      }
      return got
    })
    do {
      let value = try reader.readNode()
      try reader.readEnd()
      if let failure = reader.failure { throw failure }
      guard value.serverValues.isEmpty else {
        throw Failure(
          "an import cannot contain server values (.sv); replace them with plain values")
      }
      return value.node
    } catch {
      if let failure = reader.failure { throw failure }
      throw error
    }
  }
}
