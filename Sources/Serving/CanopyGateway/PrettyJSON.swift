internal import CanopyTree

/// Turns compact JSON into JSON with line breaks and indentation, piece by piece.
///
/// The members of an object have lines of their own; the elements of an array are separated by spaces, as official
/// servers print them.
struct PrettyJSON {
  private var isInString = false
  private var isEscaped = false
  /// The brackets that are open.
  private var open: [UInt8] = []
  /// Whether the last byte opened an object or an array that may be empty.
  private var hasOpened = false

  /// Appends the next bytes.
  mutating func append(_ bytes: UnsafeRawBufferPointer, to output: inout JSONOutput) {
    for byte in bytes {
      if isInString {
        output.append(byte)
        if isEscaped {
          isEscaped = false
        } else if byte == UInt8(ascii: "\\") {
          isEscaped = true
        } else if byte == UInt8(ascii: "\"") {
          isInString = false
        }
      } else {
        append(structural: byte, to: &output)
      }
    }
  }

  private mutating func append(structural byte: UInt8, to output: inout JSONOutput) {
    let isClosing = byte == UInt8(ascii: "}") || byte == UInt8(ascii: "]")
    if hasOpened, !isClosing { breakLine(&output) }
    switch byte {
    case UInt8(ascii: "{"), UInt8(ascii: "["):
      output.append(byte)
      open.append(byte)
    case UInt8(ascii: "}"), UInt8(ascii: "]"):
      let opening = open.popLast()
      if hasOpened || opening == UInt8(ascii: "[") {
        output.append(" ")
      } else {
        appendLine(&output)
      }
      output.append(byte)
    case UInt8(ascii: ","):
      output.append(byte)
      breakLine(&output)
    case UInt8(ascii: ":"): output.append(" : ")
    case UInt8(ascii: "\""):
      isInString = true
      output.append(byte)
    default: output.append(byte)
    }
    hasOpened = byte == UInt8(ascii: "{") || byte == UInt8(ascii: "[")
  }

  private func breakLine(_ output: inout JSONOutput) {
    if open.last == UInt8(ascii: "[") { output.append(" ") } else { appendLine(&output) }
  }

  private func appendLine(_ output: inout JSONOutput) {
    output.append("\n")
    // Arrays, which have no lines, do not indent.
    for bracket in open where bracket == UInt8(ascii: "{") { output.append("  ") }
  }
}
