import CanopyTesting
import Foundation

/// The files of this repository, found relative to this file.
enum Repository {
  static let root = Checkout.root

  /// Returns the text of the file at a path from the root.
  static func text(_ path: String) throws -> String {
    try String(contentsOf: root.appending(path: path), encoding: .utf8)
  }

  static func contains(_ path: String) -> Bool {
    FileManager.default.fileExists(atPath: root.appending(path: path).path)
  }

  /// Returns the paths of the files below a folder, sorted.
  static func files(in folder: String, suffix: String = "") -> [String] {
    let files = FileManager.default.enumerator(atPath: root.appending(path: folder).path)
    return (files?.compactMap { $0 as? String } ?? [])
      .map { "\(folder)/\($0)" }
      .filter { path in
        var isFolder: ObjCBool = false
        let url = root.appending(path: path)
        return path.hasSuffix(suffix)
          && FileManager.default.fileExists(atPath: url.path, isDirectory: &isFolder)
          && !isFolder.boolValue
      }
      .sorted()
  }

  /// A module: a folder in a folder of Sources.
  struct Module: Hashable {
    let name: String
    /// The folder that groups it with others: `Core`, `Blog`…
    let floor: String

    var path: String { "Sources/\(floor)/\(name)" }
  }

  /// Returns the modules, sorted by path.
  static func modules() throws -> [Module] {
    try folders(in: "Sources").map { floor, name in Module(name: name, floor: floor) }
  }

  /// Returns the folders of the second level in Sources or Tests, sorted, without the documentation.
  static func folders(in top: String) throws -> [(floor: String, name: String)] {
    try names(in: top).filter { !$0.hasSuffix(".docc") }.flatMap { floor in
      try names(in: "\(top)/\(floor)").map { (floor, $0) }
    }
  }

  private static func names(in folder: String) throws -> [String] {
    try FileManager.default.contentsOfDirectory(atPath: root.appending(path: folder).path).sorted()
  }

  /// The folder of inputs for decoders, which need not be text.
  static let corpus = "Tests/Tools/CanopyFuzzTests/Corpus/"

  /// Returns the paths of all files that people write: code, scripts, settings and texts.
  static func writtenFiles() throws -> [String] {
    let folders = ["Sources", "Tests", "Scripts", "Seeds", ".ci"].flatMap { files(in: $0) }
      .filter { !$0.hasSuffix(".png") && !$0.hasSuffix(".pyc") }
      .filter { !$0.hasPrefix(corpus) }
    let single = [
      ".gitignore", ".swift-format", "Package.swift", "README.md",
    ]
    return folders + single
  }
}
