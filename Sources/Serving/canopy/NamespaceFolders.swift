public import ArgumentParser
import CanopyBackup
import CanopySQLite
import CanopySession
import CanopySystem
import CanopyTree
public import CanopyWire
import Foundation

/// The folders of the namespaces in a data folder: `namespaces/NAME` has the files of the namespace NAME. Those of the
/// default namespace are in the data folder itself.
struct NamespaceFolders: Sendable {
  /// The name of the folder with the folders of namespaces.
  static let name = "namespaces"

  let dataFolder: String

  /// - Parameter dataFolder: the data folder of a server.
  init(_ dataFolder: String) {
    self.dataFolder = dataFolder
  }

  /// Returns the path of the folder of a namespace.
  func path(of name: NamespaceName) -> String {
    // A name has no slash and no dot, so the path is always below the data folder.
    name == .default ? dataFolder : "\(dataFolder)/\(Self.name)/\(name)"
  }

  /// Whether a namespace exists. One that has lost its database exists too, so that the loss is noticed.
  func exists(_ name: NamespaceName) -> Bool {
    if hasFile("canopy.sqlite", name) { return true }
    guard name != .default else { return false }
    // A link may lead to a disk that is not mounted.
    var status = stat()
    if lstat(path(of: name), &status) == 0, status.st_mode & S_IFMT == S_IFLNK { return true }
    return ["canopy.tail", "canopy.sqlite-wal", "lock", RulesKeeper.fileName]
      .contains { hasFile($0, name) }
  }

  /// Whether the folder of a namespace has a file, or cannot be searched.
  private func hasFile(_ file: String, _ name: NamespaceName) -> Bool {
    access("\(path(of: name))/\(file)", F_OK) == 0 || ![ENOENT, ENOTDIR].contains(errno)
  }

  /// Returns the names of the namespaces without a database.
  func lostNames() throws -> [NamespaceName] {
    try names().filter { !hasFile("canopy.sqlite", $0) }
  }

  /// Checks that a namespace exists.
  func checkExists(_ name: NamespaceName) throws {
    try checkIsNotMissing(name)
    guard exists(name) else {
      throw ValidationError(
        "\(dataFolder) has no namespace \(name); create it with canopy namespace create \(name)")
    }
  }

  /// Returns the path of the folder of a namespace that exists.
  ///
  /// - Throws: `StoreError` for a folder in which a program would create a database in place of a lost one.
  func existingPath(of name: NamespaceName) throws -> String {
    try checkExists(name)
    var status = stat()
    guard stat(path(of: name), &status) == 0 || errno != ENOENT else {
      throw Failure(
        "\(path(of: name)) is a symbolic link to a missing folder: mount the disk to which it leads"
      )
    }
    // With the second file, the opening notices the loss of the first one.
    guard hasFile("canopy.sqlite", name) || hasFile("canopy.tail", name) else {
      throw StoreError.withoutDatabase(path(of: name))
    }
    return path(of: name)
  }

  /// Creates a namespace that does not exist. A crash leaves all of it or none. The next start of a server records a
  /// namespace that a crash has left without a record.
  func create(_ name: NamespaceName) throws {
    try removeRemovalNote(of: name)
    let number = String(Composition.random(), radix: 16)
    try SQLiteStore.create(
      folder: path(of: name), through: "\(folder)/\(Self.newPrefix)\(name)-\(number)")
    do { try record([name]) } catch {
      Output.note(
        "\(Failure(error).description); the next start of the server records the namespace")
    }
  }

  /// Deletes the folder of a namespace that no process uses. A crash leaves all of it or none. Forgets a namespace whose
  /// folder is missing.
  func remove(_ name: NamespaceName) throws {
    if isMissing(name) {
      // The note is in the folder, which may be lost as well.
      mkdir(folder, 0o700)
      try noteRemoval(of: name)
      return try forget(name)
    }
    try checkExists(name)
    // The record goes first, because the next start of a server records a namespace that exists.
    try forget(name)
    // The note comes first. The rest that a crash leaves does not show whether the namespace has existed again since.
    try? noteRemoval(of: name)
    let number = String(Composition.random(), radix: 16)
    do throws(StoreError) {
      try SQLiteStore.remove(
        folder: path(of: name), through: "\(folder)/\(Self.removedPrefix)\(name)-\(number)")
    } catch {
      try? forgetRemoval(of: name)
      if exists(name) { try? record([name]) }
      guard case .inUse = error else { throw error }
      throw Failure(
        "the namespace \(name) is in use; stop the server, or wait until no client has used it for ten minutes"
      )
    }
    // The note is missing if the disk had no room for it. A server also removes the note of a namespace that exists.
    if !exists(name) { try noteRemoval(of: name) }
  }

  /// Deletes the remains of namespaces whose creation or removal a crash has interrupted. Leaves those that another
  /// command is creating or deleting.
  func deleteRests() throws {
    for rest in try entries() {
      guard rest.hasBytePrefix(Self.removedPrefix) || rest.hasBytePrefix(Self.newPrefix) else {
        continue
      }
      try SQLiteStore.deleteRest("\(folder)/\(rest)")
    }
  }

  /// Whether a command has removed a namespace that does not exist any more.
  func wasRemoved(_ name: NamespaceName) -> Bool {
    !exists(name) && access(removalNote(of: name), F_OK) == 0
  }

  /// Notes that a namespace was removed on purpose, so that backups that have it need not be kept. Without backups there is
  /// no note.
  private func noteRemoval(of name: NamespaceName) throws {
    guard access("\(dataFolder)/\(Backups.folderName)", F_OK) == 0 else { return }
    do throws(FileError) { try AtomicFile.replace(removalNote(of: name), with: []) } catch {
      throw Failure(
        "\(error.path) cannot be written (\(error.reason)), so the backups that have the namespace \(name) are kept; "
          + "delete them yourself")
    }
  }

  /// Removes the note of the removal of each namespace that exists: somebody has put the folder back, so the backups
  /// that have it are needed again if it is lost.
  func forgetRemovals() throws {
    for entry in try entries() where entry.hasBytePrefix(Self.notePrefix) {
      let name = entry.utf8.dropFirst(Self.notePrefix.utf8.count)
      guard let name = try? NamespaceName(String(decoding: Array(name), as: UTF8.self)) else {
        continue
      }
      try forgetRemoval(of: name)
    }
  }

  /// Removes the note of the removal of a namespace, if the namespace exists.
  func forgetRemoval(of name: NamespaceName) throws {
    if exists(name) { try removeRemovalNote(of: name) }
  }

  private func removeRemovalNote(of name: NamespaceName) throws {
    guard access(removalNote(of: name), F_OK) == 0 else { return }
    do throws(FileError) { try AtomicFile.remove(removalNote(of: name)) } catch {
      throw Failure("\(error.path) cannot be removed: \(error.reason)")
    }
  }

  /// Returns the path of the file that notes the removal of a namespace.
  private func removalNote(of name: NamespaceName) -> String {
    "\(folder)/\(Self.notePrefix)\(name)"
  }

  /// The beginnings of the names of folders that are being created or deleted. The name of a namespace has no dot.
  private static let newPrefix = ".new-"
  private static let removedPrefix = ".removed-"
  /// The beginning of the name of a file that notes a removal.
  private static let notePrefix = ".gone-"

  /// The folder with the folders of namespaces.
  private var folder: String { dataFolder + "/" + Self.name }

  private func entries() throws -> [String] {
    var status = stat()
    guard lstat(folder, &status) == 0 || errno != ENOENT else { return [] }
    // A link may lead to a disk that is not mounted.
    guard access(folder, F_OK) == 0 else {
      throw Failure(
        "\(folder) cannot be read (\(String(cString: strerror(errno)))): mount the disk to which it leads, or remove "
          + "it if there are no namespaces")
    }
    do { return try FileManager.default.contentsOfDirectory(atPath: folder) } catch {
      throw Failure("\(folder) cannot be read: \(error.localizedDescription)")
    }
  }

  /// Checks that the output of a command is not written into the data folder, in which it could replace a file.
  ///
  /// Folders are compared by their numbers in the file system, because links may lead to them.
  func checkIsOutside(_ file: String) throws {
    struct Place: Hashable {
      var device: dev_t
      var inode: ino_t

      init?(_ path: String) {
        var status = stat()
        guard stat(path, &status) == 0 else { return nil }
        (device, inode) = (status.st_dev, status.st_ino)
      }
    }
    let own =
      try [dataFolder, folder, dataFolder + "/" + Backups.folderName] + names().map(path(of:))
    let places = Set(own.compactMap(Place.init))
    let slash = file.utf8.lastIndex(of: UInt8(ascii: "/"))
    var parent = slash.map { String(file[..<$0]) + "/" } ?? "."
    while let place = Place(parent) {
      guard !places.contains(place) else {
        throw Failure(
          "\(file) is in the data folder, whose files it could replace; name a path outside of it")
      }
      let above = parent + "/.."
      if Place(above) == place { return }
      parent = above
    }
  }

  /// Returns the names of the namespaces, besides the default one, in order.
  func names() throws -> [NamespaceName] {
    try entries().compactMap { try? NamespaceName($0) }.filter { $0 != .default && exists($0) }
      .sorted { $0.text < $1.text }
  }
}

extension NamespaceName: ExpressibleByArgument {
  /// Reads a name; nil for a text that is not a name.
  public init?(argument: String) {
    guard let name = try? NamespaceName(argument) else { return nil }
    self = name
  }
}

/// The option for the namespace of a command.
struct NamespaceOption: ParsableArguments {
  @Option(name: .long, help: "The namespace (default).")
  var namespace: NamespaceName?

  /// The namespace.
  var name: NamespaceName { namespace ?? .default }

  /// Returns the folder of the namespace in a data folder, which must exist.
  func existingFolder(in folder: FolderOption) throws -> String {
    try NamespaceFolders(try folder.existingFolder()).existingPath(of: name)
  }
}
