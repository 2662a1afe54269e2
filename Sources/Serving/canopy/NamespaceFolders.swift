public import ArgumentParser
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

  /// Returns the names of the namespaces, besides the default one, in order.
  func names() throws -> [NamespaceName] {
    let folder = dataFolder + "/" + Self.name
    guard access(folder, F_OK) == 0 else { return [] }
    let found: [String]
    do { found = try FileManager.default.contentsOfDirectory(atPath: folder) } catch {
      throw Failure("\(folder) cannot be read: \(error.localizedDescription)")
    }
    return found.compactMap { try? NamespaceName($0) }.filter { $0 != .default && exists($0) }
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
