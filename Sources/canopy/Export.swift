import ArgumentParser
import CanopyStore
import CanopyTree
import Foundation

struct Export: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    abstract: "Write the tree, or a part of it, as JSON.",
    discussion: """
      The file is written beside its final name, synced and renamed: it is whole or not there. The \
      server must not be running on the folder. Accounts are not part of the tree.
      """)

  @OptionGroup var folder: FolderOption
  @Argument(help: "The path to export (/).") var path = "/"
  @Argument(help: "The file to write; - for stdout.") var file = "-"

  func run() async throws {
    try await Failure.explaining {
      let path = try Path(path)
      let store = try SQLiteStore(folder: try folder.existingFolder())
      let root = try await store.tree().root
      let node = root.at(path)
      if file == "-" {
        try write(node, to: FileHandle.standardOutput)
      } else {
        try write(node, to: file)
      }
      try store.close()
    }
  }

  private func write(_ node: Node, to file: String) throws {
    let temporary = file + ".part-\(ProcessInfo.processInfo.processIdentifier)"
    let descriptor = open(temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0o600)
    guard descriptor >= 0 else {
      throw Failure("\(temporary) cannot be written: \(String(cString: strerror(errno)))")
    }
    do {
      let handle = FileHandle(fileDescriptor: descriptor, closeOnDealloc: true)
      try write(node, to: handle)
      try handle.synchronize()
      try handle.close()
      guard rename(temporary, file) == 0 else {
        throw Failure("\(file) cannot be replaced: \(String(cString: strerror(errno)))")
      }
    } catch {
      unlink(temporary)
      throw error
    }
    // The name itself is durable once the folder is.
    let folder = (file as NSString).deletingLastPathComponent
    let directory = open(folder.isEmpty ? "." : folder, O_RDONLY | O_CLOEXEC)
    if directory >= 0 {
      fsync(directory)
      close(directory)
    }
  }

  private func write(_ node: Node, to handle: FileHandle) throws {
    var written = 0
    var output = JSONOutput { bytes in
      try handle.write(contentsOf: bytes)
      written += bytes.count
      Output.progress("exported \(Output.megabytes(written))")
    }
    output.append(node, style: .export)
    output.append(UInt8(ascii: "\n"))
    try output.finish()
    Output.progress("exported \(Output.megabytes(written))", isDone: true)
  }
}
