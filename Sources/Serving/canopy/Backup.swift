import ArgumentParser
import CanopyBackup
import CanopySQLite
import CanopySystem
import CanopyTree
import CanopyWire
import Foundation

struct Backup: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    abstract: "Write a backup of a data folder into a file, also while a server runs.",
    discussion: """
      The file is a tar archive with all namespaces, each as it was after one commit, with the accounts, the rules, the \
      on-disconnect writes, the keys of identity tokens and the administrator's token. Keep it secret. A running server \
      makes the backup itself, in small steps beside its other work. The file gets its name when it is complete and \
      checked, and replaces an older file of that name.
      """)

  @OptionGroup var folder: FolderOption
  @Argument(help: "The file to write.") var file: String

  func validate() throws {
    guard !file.isEmpty else {
      throw ValidationError("the name of the file is empty; name a file to write")
    }
    // Elsewhere it means the standard output, which may be a terminal or a log: a backup has all secrets.
    guard file != "-" else {
      throw ValidationError(
        "a backup cannot be written to the standard output; name a file to write")
    }
  }

  func run() async throws {
    try await Failure.explaining {
      let folder = try folder.folder()
      guard access(folder + "/" + NodeFolder.nameFile, F_OK) != 0 else {
        throw Failure(
          "the data of \(folder) is in PostgreSQL; make a backup with PostgreSQL's own tools, such as pg_dump"
        )
      }
      _ = try self.folder.existingFolder()
      try checkTarget()
      try NamespaceFolders(folder).checkIsOutside(file)
      let made: (sequence: Int64, bytes: Int) = try await FolderUse.choose(folder) {
        try await makeOfFolder(folder)
      } onServer: {
        try await makeOfServer(folder)
      }
      try Output.line(
        "\(file) has everything up to commit \(made.sequence), in \(made.bytes) bytes")
    }
  }

  private func checkTarget() throws {
    var status = stat()
    guard lstat(file, &status) == 0 else { return }
    guard status.st_mode & S_IFMT == S_IFREG else {
      throw Failure("\(file) is not a regular file; name a file that does not exist yet")
    }
  }

  // MARK: Without a server

  private func makeOfFolder(_ folder: String) async throws -> (Int64, Int) {
    let work = Self.unusedPath(try Setting.path(file), isHidden: true)
    return try await Interruption.removingCopies(and: [work]) {
      let maker = BackupMaker.ofFolder(folder, isServed: false, pace: .unlimited)
      let made = try maker.make(in: work) { _ in
        file
      } progress: {
        Self.show($0.bytes, $0.bytesMax)
      }
      Output.progress("", isDone: true)
      let folders = NamespaceFolders(folder)
      for name in try [.default] + folders.names() {
        let path = folders.path(of: name)
        guard SQLiteStore.hasDamagedTail(path) else { continue }
        Output.note(
          "\(path)/canopy.tail is damaged, so the backup may lack the last commits without a sign of it"
        )
      }
      return (made.description.databases[0].sequence, made.bytes)
    }
  }

  private static func show(_ bytes: Int, _ bytesMax: Int) {
    Output.progress("copied \(Output.megabytes(bytes)) of \(Output.megabytes(bytesMax))")
  }

  // MARK: With a server

  private func makeOfServer(_ folder: String) async throws -> (Int64, Int) {
    let reply = try await withThrowingTaskGroup(of: Void.self) { tasks in
      if isatty(2) == 1 { tasks.addTask { try await Self.showProgress(of: folder) } }
      let reply = try await AdministratorConnection.logIn(to: folder) { connection in
        try await connection.success("BACKUP")
      }
      tasks.cancelAll()
      return reply
    }
    guard let name = reply["file"]?.string, let sequence = reply["seq"]?.integer,
      let bytes = reply["bytes"]?.integer
    else { throw Failure("the server's reply has no file; see the server's log") }
    // Another program may have taken the place of the server, and would have root move any file.
    guard let backup = StoredBackup(name: name, bytes: Int(bytes)) else {
      throw Failure(
        "the program that uses \(folder) does not name a backup in its reply; nothing was moved: check which program it is"
      )
    }
    let made = folder + "/" + Backups.folderName + "/" + backup.name
    var status = stat()
    guard lstat(made, &status) == 0 else {
      throw Failure("\(made) cannot be read: \(String(cString: strerror(errno)))")
    }
    guard status.st_mode & S_IFMT == S_IFREG else {
      throw Failure(
        "\(made) is not a regular file; nothing was moved: check which program uses \(folder)")
    }
    let temporary = Self.unusedPath(try Setting.path(file))
    try await Interruption.removing([temporary]) {
      try Self.move(made, to: file, through: temporary)
    }
    return (sequence, Int(bytes))
  }

  /// Shows the progress of the server every half a second.
  private static func showProgress(of folder: String) async throws {
    try await AdministratorConnection.logIn(to: folder) { connection in
      while true {
        let running = try await connection.success("BACKUPS")["running"]
        if let done = running?["bytes"]?.integer, let total = running?["of"]?.integer {
          show(Int(done), Int(total))
        }
        try await Task.sleep(for: .milliseconds(500))
      }
    }
  }

  /// Returns a path beside a file that nothing has. A killed command with the same process id may have left one: in a
  /// container each command may have the id 1.
  ///
  /// - Parameter isHidden: whether the name begins with a dot.
  private static func unusedPath(_ file: String, isHidden: Bool = false) -> String {
    let slash = file.utf8.lastIndex(of: UInt8(ascii: "/"))
    let start = slash.map { file.utf8.index(after: $0) } ?? file.startIndex
    return NewFolder.unusedPath(
      beside: "\(file[..<start])\(isHidden ? "." : "")\(file[start...])", for: "part",
      number: Int(ProcessInfo.processInfo.processIdentifier))
  }

  /// Moves the backup of the server to the name of the file, on another disk by a copy.
  ///
  /// - Parameter temporary: the path of the file that becomes the copy when it is complete.
  static func move(_ made: String, to file: String, through temporary: String) throws {
    if FileCalls.renameFile(made, to: file) == 0 {
      do throws(FileError) { try AtomicFile.synchronizeFolder(of: file) } catch {
        throw Failure(
          "\(file) is the backup, but its name may be lost if the power fails (\(error.reason)): check the disk"
        )
      }
      return
    }
    let code = errno
    guard code == EXDEV else {
      throw Failure(
        "\(file) cannot be written: \(ExportFile.reason(code)); the backup is in \(made)")
    }
    let source = open(made, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC)
    guard source >= 0 else {
      throw Failure("\(made) cannot be read: \(String(cString: strerror(errno)))")
    }
    defer { close(source) }
    do {
      try AtomicFile.replace(file, temporary: temporary) { write in
        var buffer = [UInt8](repeating: 0, count: 1024 * 1024)
        while true {
          let count = read(source, &buffer, buffer.count)
          if count < 0, errno == EINTR { continue }
          guard count >= 0 else { throw FileError("read", made) }
          if count == 0 { return }
          try buffer.withUnsafeBytes { try write(UnsafeRawBufferPointer(rebasing: $0[..<count])) }
        }
      }
    } catch let error as FileError {
      throw Failure(
        "\(file) cannot be written: \(ExportFile.reason(error.code)); the backup is in \(made)")
    }
    _ = FileCalls.removeFile(made)
  }
}

extension JSONValue {
  /// The integer of a leaf; nil for another value.
  fileprivate var integer: Int64? {
    if case .leaf(let node) = self { node.integerValue } else { nil }
  }
}
