import CanopyTree

/// Arguments of the line protocol.
enum Line {
  /// Returns a text as a JSON string.
  static func quoted(_ text: String) -> String {
    var output = JSONOutput()
    output.append(string: text)
    return output.text
  }

  /// Returns JSON on one line. A CR or LF in JSON can always be a space. Other line breaks, such as U+2028, are
  /// characters of a string.
  static func joined(_ json: String) -> String {
    let bytes = json.utf8.map { byte in
      byte == UInt8(ascii: "\r") || byte == UInt8(ascii: "\n") ? UInt8(ascii: " ") : byte
    }
    return String(decoding: bytes, as: UTF8.self)
  }
}
