public import CanopyTree

extension String {
  /// The text in quotation marks, for a line of the log. A client may have chosen it: invisible characters and line
  /// breaks become spaces, quotation marks and backslashes get a backslash, and a long text is cut off.
  public var quotedForLog: String {
    var text = String.UnicodeScalarView("\"".unicodeScalars)
    let scalars = unicodeScalars
    let end = scalars.index(
      scalars.startIndex, offsetBy: String.loggedMax, limitedBy: scalars.endIndex)
    for scalar in scalars[..<(end ?? scalars.endIndex)] {
      switch scalar.properties.generalCategory {
      case .control, .format, .lineSeparator, .paragraphSeparator: text.append(" ")
      default:
        if scalar == "\"" || scalar == "\\" { text.append("\\") }
        text.append(scalar)
      }
    }
    if let end, end < scalars.endIndex { text.append("…") }
    text.append("\"")
    return String(text)
  }

  /// The most Unicode scalars of a text in the log.
  private static let loggedMax = 200
}

extension Location {
  /// The location with a leading slash, in quotation marks, for a line of the log.
  public var textForLog: String { ("/" + text).quotedForLog }
}
