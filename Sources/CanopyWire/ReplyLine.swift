public import CanopyTree

/// The form of a server's lines.
public enum ReplyLine {
  /// Writes the reply to a request that succeeded: `+`, JSON, line end.
  ///
  /// - Parameter body: writes one JSON value, which has no line breaks.
  @inline(__always)
  public static func success(
    to output: inout JSONOutput, _ body: (inout JSONOutput) -> Void
  ) {
    output.append(UInt8(ascii: "+"))
    body(&output)
    output.append("\r\n")
  }

  /// Writes the reply to a request that failed: `-CODE sentence`.
  public static func failure(_ error: WireError, to output: inout JSONOutput) {
    output.append(UInt8(ascii: "-"))
    output.append(raw: error.code.rawValue)
    output.append(UInt8(ascii: " "))
    output.append(raw: error.sentence)
    output.append("\r\n")
  }
}
