import CanopyTree
import Foundation

/// The data of every system before the measurement: posts by users, in turn, without stars.
///
/// All data follow from their numbers, so that the client can check a reply without storing the data.
struct DataSet {
  var posts: Int
  var users: Int
  var bodyBytes = 300
  /// The ids of the first users in Canopy. All others get generated ids.
  var uids: [String] = []

  func author(of post: Int) -> Int { post % users }
  func username(_ user: Int) -> String { "user\(user)" }
  func title(_ post: Int) -> String { "Post number \(post)" }
  func createdAt(_ post: Int) -> Int64 { 1_700_000_000_000 + Int64(post) * 100 }

  func uid(_ user: Int) -> String {
    user < uids.count ? uids[user] : "u" + String(1_000_000_000_000_000_000 + user)
  }

  /// Returns the body of a post, which contains `DataSet.mark` once.
  func body(_ post: Int) -> String {
    String(decoding: bodyBytes(of: post), as: UTF8.self)
  }

  /// A text that occurs once in every body and nowhere else.
  static let mark = Array(" of a data set.".utf8)
  private static let filler = Array(
    String(repeating: " It has a body of the usual length.", count: 100).utf8)

  func bodyBytes(of post: Int) -> [UInt8] {
    var bytes: [UInt8] = []
    bytes.reserveCapacity(bodyBytes)
    appendBody(of: post, to: &bytes)
    return bytes
  }

  func appendBody(of post: Int, to bytes: inout [UInt8]) {
    let start = bytes.count
    bytes += "Post number ".utf8
    bytes.append(decimal: post)
    bytes += Self.mark
    let rest = bodyBytes - (bytes.count - start)
    if rest > 0 { bytes += Self.filler[..<min(rest, Self.filler.count)] }
  }

  /// The ids of the posts in Canopy: push ids, the same in each run.
  func keys() -> [Key] {
    var ids = PushIDGenerator()
    var random = SplitMix64(seed: 42)
    return (0..<posts).map { post in ids.next(at: createdAt(post)) { random.next() } }
  }
}

extension [UInt8] {
  /// Appends a number in decimal digits without creating a string.
  mutating func append(decimal number: Int) {
    if number >= 10 { append(decimal: number / 10) }
    append(UInt8(ascii: "0") + UInt8(number % 10))
  }
}
