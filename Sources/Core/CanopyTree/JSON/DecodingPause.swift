/// A place at which long decoding may stop, so that other work has a turn: see `JSONReader.pause`.
public struct DecodingPause {
  private let body: (() throws -> Void)?

  /// Creates pauses.
  ///
  /// - Parameter body: called often, and returns when the decoding may go on. An error ends the decoding.
  public init(_ body: @escaping () throws -> Void) {
    self.body = body
  }

  private init() {
    body = nil
  }

  /// No pauses.
  public static var none: DecodingPause { DecodingPause() }

  /// Waits until the decoding may go on.
  ///
  /// - Throws: `TreeError` if the caller needs the result no longer.
  @inline(__always)
  func callAsFunction() throws(TreeError) {
    if let body { try DecodingPause.call(body) }
  }

  @inline(never)
  private static func call(_ body: () throws -> Void) throws(TreeError) {
    do { try body() } catch { throw .invalidData("the value is no longer needed") }
  }
}

extension Sequence {
  /// Returns the elements in an order.
  ///
  /// - Parameter pause: called for each comparison. After its first error it is not called again.
  /// - Throws: the error of `pause`.
  func sorted<E: Error>(
    pausing pause: () throws(E) -> Void, by isBefore: (Element, Element) -> Bool
  ) throws(E) -> [Element] {
    var failure: E?
    let result = sorted { a, b in
      if failure == nil {
        do throws(E) { try pause() } catch { failure = error }
      }
      return isBefore(a, b)
    }
    if let failure { throw failure }
    return result
  }
}
