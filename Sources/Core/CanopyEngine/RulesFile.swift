internal import CanopyTree

/// The contents of `rules.json` in a data folder: the text of rules, and a last line with its checksum if a server wrote
/// the file. The line is a comment in the language of the rules.
///
/// A file that a person wrote has no such line and is taken as it is.
public struct RulesFile: Sendable {
  /// The name of the file.
  public static let name = "rules.json"

  private static let seal = "// checksum of the rules above; remove this line if you edit them: "

  /// The bytes of the text, without the line of the checksum.
  public let body: [UInt8]
  /// Whether the checksum is that of the text. A file without a checksum counts as intact.
  public let isIntact: Bool

  /// Reads the bytes of a file.
  public init(_ bytes: [UInt8]) {
    let breaks = [UInt8(ascii: "\n"), UInt8(ascii: "\r")]
    let end = bytes.lastIndex { !breaks.contains($0) }.map { $0 + 1 } ?? 0
    let lineBreak = bytes[..<end].lastIndex(of: UInt8(ascii: "\n"))
    let line = bytes[(lineBreak.map { $0 + 1 } ?? 0)..<end]
    guard line.starts(with: Self.seal.utf8) else {
      body = bytes
      isIntact = true
      return
    }
    body = Array(bytes[..<(lineBreak ?? 0)])
    let checksum = Self.checksum(of: String(decoding: body, as: UTF8.self))
    isIntact = line.dropFirst(Self.seal.utf8.count).elementsEqual(checksum.utf8)
  }

  /// Returns the bytes of a file for a text, with its checksum.
  public static func bytes(of text: String) -> [UInt8] {
    Array("\(text)\n\(seal)\(checksum(of: text))\n".utf8)
  }

  /// Returns the checksum of a text of rules, by which they are recognised after a restart.
  public static func checksum(of text: String) -> String { Node(text).hash }

  /// Returns the sentence for a file that is not intact.
  public static func damage(of path: String) -> String {
    "\(path) is damaged, or was edited: the checksum in its last line is not that of the text; put back the file of a "
      + "backup, or remove the last line if the text is right"
  }

  /// Returns the sentence for a file that does not exist although its rules were in force.
  public static func loss(of path: String) -> String {
    "\(path) is missing, and its rules were in force; put back the file of a backup, or run canopy serve "
      + "--accept-loss, after which the rules allow nothing until the administrator sets others"
  }
}
