import ArgumentParser
import CanopyEngine
import CanopySQLite
import CanopyTree
import Foundation

struct Export: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    abstract: "Write the tree, or one path of it, as JSON.",
    discussion: """
      The command writes a temporary file, syncs it and renames it, so that the file is complete or \
      does not exist. It follows a symbolic link, and writes into a device or a pipe. Stop the server of \
      the folder first. The export has no accounts, because they are not part of the tree.
      """)

  @OptionGroup var folder: FolderOption
  @OptionGroup var option: NamespaceOption
  @Argument(help: "The path to export.") var path = "/"
  @Argument(help: "The file to write; - is stdout.") var file = "-"

  func run() async throws {
    try await Failure.explaining {
      let path = try Path(path)
      // Check the file first: reading the folder may take long.
      let source = try option.existingFolder(in: folder)
      let target = file == "-" ? nil : try ExportFile(file)
      if let path = target?.path {
        try NamespaceFolders(try folder.existingFolder()).checkIsOutside(path)
      }
      try await Interruption.removingCopies(and: [target?.temporary].compactMap(\.self)) {
        let store = try SQLiteStore.reading(source)
        if let loss = store.losses.first { throw Failure(loss) }
        let node = try await store.tree().root.at(path)
        if let target {
          try target.write { try write(node, $0) }
        } else {
          try write(node, Output.bytes)
        }
        try store.close()
      }
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
