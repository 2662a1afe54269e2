import ArgumentParser
import CanopySQLite
import CanopyTree
import Foundation

struct Import: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    abstract: "Replace the tree, or a part of it, by JSON.",
    discussion: """
      All or nothing: the file is read and checked as a whole, then stored in one transaction. The \
      server must not be running on the folder. What happened before can no longer be resumed from.
      """)

  @OptionGroup var folder: FolderOption
  @Argument(help: "The path to replace (/).") var path = "/"
  @Argument(help: "The file to read; - for stdin.") var file = "-"

  func run() async throws {
    try await Failure.explaining {
      let path = try Path(path)
      let node = try read()
      _ = try Write.set(Location(path), WriteValue(node))
      let store = try SQLiteStore(folder: try folder.folder())
      try await store.replace(path, with: node) { rows in
        Output.progress("stored \(rows) rows")
      }
      try store.close()
      Output.progress("stored", isDone: true)
    }
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
      guard got >= 0 else { throw Failure("reading failed: \(String(cString: strerror(errno)))") }
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
        throw Failure("an import may not hold server values (.sv)")
      }
      return value.node
    } catch {
      if let failure = reader.failure { throw failure }
      throw error
    }
  }
}
