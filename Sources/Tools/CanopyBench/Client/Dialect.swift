/// The requests of a system as bytes, and the check of its replies.
protocol Dialect<Framer> {
  associatedtype Framer: ReplyFramer
  associatedtype Request = BlogRequest

  /// Appends the bytes of a request of a user.
  func write(_ request: Request, as user: Int, to output: inout [UInt8])

  /// Checks the reply to a request.
  ///
  /// - Parameter isThorough: whether to check the contents too. The client does so for few replies, because searching
  ///   fifty kilobytes of a list takes longer than receiving them.
  func check(
    _ frame: Frame, _ bytes: UnsafeRawBufferPointer, to request: Request, as user: Int,
    isThorough: Bool
  ) -> Verdict
}

enum Verdict: Equatable {
  case right
  /// A correct reply to a star, which is now on the post, or not.
  case starred(Bool)
  /// A correct reply to a post, which now exists.
  case posted
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

  /// Returns the number of occurrences of a text, without overlaps.
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
