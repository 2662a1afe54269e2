public import Foundation

/// A new folder that is removed with the last reference to it.
public final class TemporaryFolder: Sendable {
  /// The path of the folder.
  public let path: String

  /// Creates the folder.
  public init() throws {
    path = FileManager.default.temporaryDirectory.path + "/canopy-test-\(UUID().uuidString)"
    try FileManager.default.createDirectory(atPath: path, withIntermediateDirectories: false)
  }

  deinit {
    try? FileManager.default.removeItem(atPath: path)
  }

  /// The folder as a URL.
  public var url: URL { URL(fileURLWithPath: path, isDirectory: true) }

  /// Returns the path of a file in the folder.
  public func file(_ name: String) -> String { path + "/" + name }

  /// Returns the names of the files in the folder, sorted.
  public func files() throws -> [String] {
    try FileManager.default.contentsOfDirectory(atPath: path).sorted()
  }
}
