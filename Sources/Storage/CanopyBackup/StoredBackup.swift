internal import Foundation

/// A backup in the folder `backups` of a data folder.
public struct StoredBackup: Equatable, Sendable {
  /// The reason for which a backup is made.
  public enum Kind: String, CaseIterable, Sendable {
    /// The schedule of the server.
    case scheduled
    /// A request of the administrator.
    case requested
  }

  /// The reason for which it was made.
  public let kind: Kind
  /// The time at which it began, in milliseconds since 1970; exact to a second.
  public let time: Int64
  /// The number of the last commit of the default namespace.
  public let sequence: Int64
  /// The number of bytes.
  public let bytes: Int

  /// The name of the file: `scheduled-20261127T192826Z-688.tar`.
  public var name: String { StoredBackup.name(kind, time: time, sequence: sequence) }

  static func name(_ kind: Kind, time: Int64, sequence: Int64) -> String {
    let style = Date.ISO8601FormatStyle(timeZone: .gmt).year().month().day()
      .dateSeparator(.omitted).time(includingFractionalSeconds: false).timeSeparator(.omitted)
    let text = Date(timeIntervalSince1970: Double(time / 1_000)).formatted(style)
    return "\(kind.rawValue)-\(text)Z-\(sequence).tar"
  }

  init(kind: Kind, time: Int64, sequence: Int64, bytes: Int) {
    self.kind = kind
    self.time = time / 1_000 * 1_000
    self.sequence = sequence
    self.bytes = bytes
  }

  /// Reads the name of a file; nil for one that `name` does not return, such as a renamed backup.
  package init?(name: String, bytes: Int) {
    let parts = name.utf8.split(separator: UInt8(ascii: "-"), omittingEmptySubsequences: false)
      .map { String(decoding: Array($0), as: UTF8.self) }
    guard parts.count == 3, let kind = Kind(rawValue: parts[0]),
      let sequence = Int64(String(decoding: parts[2].utf8.dropLast(4), as: UTF8.self)),
      let time = StoredBackup.time(parts[1])
    else { return nil }
    self.init(kind: kind, time: time, sequence: sequence, bytes: bytes)
    guard self.name.utf8.elementsEqual(name.utf8) else { return nil }
  }

  /// Returns the milliseconds of a text such as `20261127T192826Z`.
  private static func time(_ text: String) -> Int64? {
    let digits = text.utf8.filter { 0x30...0x39 ~= $0 }.map { Int($0 - 0x30) }
    guard digits.count == 14, text.utf8.count == 16 else { return nil }
    func number(_ range: Range<Int>) -> Int { digits[range].reduce(0) { $0 * 10 + $1 } }
    var parts = DateComponents()
    parts.calendar = Calendar(identifier: .gregorian)
    parts.timeZone = .gmt
    (parts.year, parts.month, parts.day) = (number(0..<4), number(4..<6), number(6..<8))
    (parts.hour, parts.minute, parts.second) = (number(8..<10), number(10..<12), number(12..<14))
    return parts.date.map { Int64($0.timeIntervalSince1970) * 1_000 }
  }
}
