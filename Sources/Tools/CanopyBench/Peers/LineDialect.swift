import CanopyTree

/// The dialect of Canopy: its line protocol.
struct LineDialect: Dialect {
  typealias Framer = LineFramer

  private let data: DataSet
  /// The keys of all posts, one after the other. Every push id has twenty characters.
  private let keys: [UInt8]
  private static let keyBytes = 20

  init(_ data: DataSet) {
    self.data = data
    keys = data.keys().flatMap { $0.text.utf8 }
  }

  private func key(_ post: Int) -> ArraySlice<UInt8> {
    keys[post * Self.keyBytes..<(post + 1) * Self.keyBytes]
  }

  func write(_ request: BlogRequest, as user: Int, to output: inout [UInt8]) {
    switch request {
    case .ping:
      output += "PING".utf8
    case .post(let number):
      output += "POST \"Post number ".utf8
      output.append(decimal: number)
      output += "\" \"".utf8
      data.appendBody(of: number, to: &output)
      output.append(UInt8(ascii: "\""))
    case .star(let post):
      output += "STAR ".utf8
      output += key(post)
    case .comment(let post):
      output += "COMMENT ".utf8
      output += key(post)
      output += " \"".utf8
      output += BlogRequest.comment.utf8
      output.append(UInt8(ascii: "\""))
    case .show(let post):
      output += "SHOW ".utf8
      output += key(post)
    case .recent:
      output += "RECENT {\"limit\":100}".utf8
    case .top:
      output += "TOP me {\"limit\":10}".utf8
    }
    output.append(0x0A)
  }

  func check(
    _ frame: Frame, _ bytes: UnsafeRawBufferPointer, to request: BlogRequest, as user: Int,
    isThorough: Bool
  ) -> Verdict {
    switch request {
    case .ping:
      return Verdict(bytes.starts(with: "+\"PONG\""))
    case .post:
      return bytes.starts(with: "+{\"id\":\"-") ? .posted : .wrong
    case .comment:
      return Verdict(bytes.starts(with: "+{\"id\":\"-"))
    case .star:
      if bytes.starts(with: "+{\"starred\":true,") { return .starred(true) }
      if bytes.starts(with: "+{\"starred\":false,") { return .starred(false) }
      return .wrong
    case .show(let post):
      guard bytes.starts(with: "+{\"id\":\"-"), bytes.count > data.bodyBytes else { return .wrong }
      return Verdict(!isThorough || bytes.contains("\"body\":\"\(data.body(post))\""))
    case .recent:
      return checkList(bytes, BlogRequest.recentCount, isThorough)
    case .top:
      return checkList(bytes, BlogRequest.topCount, isThorough)
    }
  }

  private func checkList(
    _ bytes: UnsafeRawBufferPointer, _ count: Int, _ isThorough: Bool
  ) -> Verdict {
    guard bytes.starts(with: "+[{\"id\":\"-"), bytes.count > count * data.bodyBytes else {
      return .wrong
    }
    return Verdict(!isThorough || bytes.occurrences(of: DataSet.mark) == count)
  }
}
