/// How a system is asked, and what a right answer looks like.
protocol Dialect<Framer> {
  associatedtype Framer: ReplyFramer

  /// Appends a request of a user.
  func write(_ request: BlogRequest, as user: Int, to output: inout [UInt8])

  /// Judges the answer to a request.
  ///
  /// - Parameter isThorough: whether to look at the contents too. That is asked for one answer in many,
  ///   as looking through fifty kilobytes of a list takes the client longer than receiving them.
  func judge(
    _ frame: Frame, _ bytes: UnsafeRawBufferPointer, to request: BlogRequest, as user: Int,
    isThorough: Bool
  ) -> Verdict
}

enum Verdict: Equatable {
  case right
  /// A right answer to a star: it is on the post now, or off it.
  case starred(Bool)
  case wrong
}

extension Verdict {
  init(_ isRight: Bool) {
    self = isRight ? .right : .wrong
  }
}

extension UnsafeRawBufferPointer {
  func starts(with text: StaticString) -> Bool {
    guard count >= text.utf8CodeUnitCount else { return false }
    return UnsafeRawBufferPointer(rebasing: self[..<text.utf8CodeUnitCount])
      .elementsEqual(UnsafeBufferPointer(start: text.utf8Start, count: text.utf8CodeUnitCount))
  }

  /// How often a text occurs, not counting overlaps.
  func occurrences(of text: [UInt8]) -> Int {
    guard let first = text.first else { return 0 }
    var found = 0
    var i = 0
    while i + text.count <= count {
      if self[i] == first, self[i..<i + text.count].elementsEqual(text) {
        found += 1
        i += text.count
      } else {
        i += 1
      }
    }
    return found
  }

  func contains(_ text: String) -> Bool {
    occurrences(of: Array(text.utf8)) > 0
  }
}
