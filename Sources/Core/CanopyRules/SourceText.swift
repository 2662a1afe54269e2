/// The bytes of a file, and the start of each line.
struct SourceText {
  let file: String
  let bytes: [UInt8]
  private let lineStarts: [Int]

  init(file: String, bytes: [UInt8]) {
    self.file = file
    self.bytes = bytes
    var starts = [0]
    for (i, byte) in bytes.enumerated() where byte == UInt8(ascii: "\n") { starts.append(i + 1) }
    lineStarts = starts
  }

  /// Returns the line of a byte, from 1.
  ///
  /// - Complexity: O(log lines).
  func line(of offset: Int) -> Int {
    var low = 0
    var high = lineStarts.count
    while high - low > 1 {
      let middle = (low + high) / 2
      if lineStarts[middle] <= offset { low = middle } else { high = middle }
    }
    return low + 1
  }

  /// Returns the line and column of a byte, both from 1. For errors: a file may have one line, and then finding the
  /// column of each rule would take quadratic time.
  ///
  /// - Complexity: O(log lines + column).
  func position(of offset: Int) -> (line: Int, column: Int) {
    let line = line(of: offset)
    let end = min(offset, bytes.count)
    // Continuation bytes of UTF-8 do not begin a character.
    let characters = bytes[min(lineStarts[line - 1], end)..<end].count { $0 & 0xC0 != 0x80 }
    return (line, characters + 1)
  }

  func problem(at offset: Int, rule: String?, _ message: String) -> RulesError.Problem {
    let (line, column) = position(of: offset)
    return .init(file: file, line: line, column: column, rule: rule, message: message)
  }
}
