import ArgumentParser
import CanopySQLite
import CanopyTree
import Foundation

struct Export: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    abstract: "Write the tree, or a part of it, as JSON.",
    discussion: """
      The file is written beside its final name, synced and renamed: it is whole or not there. A \
      symbolic link is followed, and a device or a pipe is written to. The server must not be running \
      on the folder. Accounts are not part of the tree.
      """)

  @OptionGroup var folder: FolderOption
  @Argument(help: "The path to export (/).") var path = "/"
  @Argument(help: "The file to write; - for stdout.") var file = "-"

  func run() async throws {
    try await Failure.explaining {
      let path = try Path(path)
      // Before the folder is read, which may take long.
      let target = file == "-" ? nil : try ExportFile(file)
      let store = try SQLiteStore.reading(try folder.existingFolder())
      if let loss = store.losses.first { throw Failure(loss) }
      let root = try await store.tree().root
      let node = root.at(path)
      if let target {
        try target.write { try write(node, $0) }
      } else {
        try write(node, Output.bytes)
      }
      try store.close()
    }
  }

  private func write(_ node: Node, _ put: (UnsafeRawBufferPointer) throws -> Void) throws {
    try withoutActuallyEscaping(put) { put in
      var written = 0
      var output = JSONOutput { bytes in
        try put(bytes)
        written += bytes.count
        Output.progress("exported \(Output.megabytes(written))")
      }
      output.append(node, style: .export)
      output.append(UInt8(ascii: "\n"))
      try output.finish()
      Output.progress("exported \(Output.megabytes(written))", isDone: true)
    }
  }
}
