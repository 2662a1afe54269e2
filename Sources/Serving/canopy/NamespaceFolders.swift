public import ArgumentParser
import CanopySQLite
import CanopyTree
public import CanopyWire
import Foundation

/// The folders of the namespaces in a data folder: `namespaces/NAME` has the files of the namespace NAME. Those of the
/// default namespace are in the data folder itself.
struct NamespaceFolders: Sendable {
  /// The name of the folder with the folders of namespaces.
  static let name = "namespaces"

  private let dataFolder: String

  /// - Parameter dataFolder: the data folder of a server.
  init(_ dataFolder: String) {
    self.dataFolder = dataFolder
  }

  /// Returns the path of the folder of a namespace.
  func path(of name: NamespaceName) -> String {
    // A name has no slash and no dot, so the path is always below the data folder.
    name == .default ? dataFolder : "\(dataFolder)/\(Self.name)/\(name)"
  }

  /// Whether a namespace exists.
  func exists(_ name: NamespaceName) -> Bool {
    access(path(of: name) + "/canopy.sqlite", F_OK) == 0
  }

  /// Returns the path of the folder of a namespace that exists.
  func existingPath(of name: NamespaceName) throws -> String {
    guard exists(name) else {
      throw ValidationError(
        "\(dataFolder) has no namespace \(name); create it with canopy namespace create \(name)")
    }
    return path(of: name)
  }

  /// Deletes the folder of a namespace that exists and that no process uses. A crash leaves all of it or none.
  func remove(_ name: NamespaceName) throws {
    let path = try existingPath(of: name)
    let number = String(Composition.random(), radix: 16)
    do throws(StoreError) {
      try SQLiteStore.remove(
        folder: path, through: "\(folder)/\(Self.removedPrefix)\(name)-\(number)")
    } catch {
      guard case .inUse = error else { throw error }
      throw Failure(
        "the namespace \(name) is in use; stop the server, or wait until no client has used it for ten minutes"
      )
    }
  }

  /// Deletes the rests of namespaces whose removal a crash has interrupted. Leaves those that another command is deleting.
  func deleteRests() throws {
    for rest in try entries().filter({ $0.hasBytePrefix(Self.removedPrefix) }) {
      try SQLiteStore.deleteRest("\(folder)/\(rest)")
    }
  }

  /// The beginning of the name of a folder that is being deleted. The name of a namespace has no dot.
  private static let removedPrefix = ".removed-"

  /// The folder with the folders of namespaces.
  private var folder: String { dataFolder + "/" + Self.name }

  private func entries() throws -> [String] {
    guard access(folder, F_OK) == 0 else { return [] }
    do { return try FileManager.default.contentsOfDirectory(atPath: folder) } catch {
      throw Failure("\(folder) cannot be read: \(error.localizedDescription)")
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
