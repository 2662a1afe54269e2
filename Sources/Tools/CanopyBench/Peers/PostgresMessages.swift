/// Messages of PostgreSQL's protocol, version 3, that a client sends.
enum PostgresMessages {
  /// The first message of a connection.
  static func startup(user: String, database: String) -> [UInt8] {
    var body: [UInt8] = []
    body.append(bigEndian: UInt32(196_608))
    for text in ["user", user, "database", database] { body.append(zeroTerminated: text) }
    body.append(0)
    var message: [UInt8] = []
    message.append(bigEndian: UInt32(body.count + 4))
    return message + body
  }

  /// A text of SQL that is carried out without more ado.
  static func query(_ text: String) -> [UInt8] {
    var message: [UInt8] = []
    message.append(message: "Q") { $0.append(zeroTerminated: text) }
    return message
  }

  /// Prepares statements under names, all at once.
  static func prepare(_ statements: [(name: String, text: String)]) -> [UInt8] {
    var messages: [UInt8] = []
    for (name, text) in statements {
      messages.append(message: "P") {
        $0.append(zeroTerminated: name)
        $0.append(zeroTerminated: text)
        $0.append(bigEndian: UInt16(0))
      }
    }
    messages += sync
    return messages
  }

  /// Ends a request: what came before is committed, and answered.
  static let sync: [UInt8] = [UInt8(ascii: "S"), 0, 0, 0, 4]
  /// Carries out what was bound, without bounds on the rows.
  static let execute: [UInt8] = [UInt8(ascii: "E"), 0, 0, 0, 9, 0, 0, 0, 0, 0]
}

extension [UInt8] {
  mutating func append(bigEndian number: some FixedWidthInteger) {
    Swift.withUnsafeBytes(of: number.bigEndian) { append(contentsOf: $0) }
  }

  mutating func append(zeroTerminated text: String) {
    self += text.utf8
    append(0)
  }

  /// Appends a message: its type, its length, and what `contents` appends.
  mutating func append(message kind: Unicode.Scalar, _ contents: (inout [UInt8]) -> Void) {
    append(UInt8(ascii: kind))
    let start = count
    append(bigEndian: UInt32(0))
    contents(&self)
    let length = UInt32(count - start)
    for i in 0..<4 { self[start + i] = UInt8(truncatingIfNeeded: length >> (24 - 8 * UInt32(i))) }
  }

  /// Appends a parameter of a Bind: its length and what `contents` appends.
  mutating func append(parameter contents: (inout [UInt8]) -> Void) {
    let start = count
    append(bigEndian: UInt32(0))
    contents(&self)
    let length = UInt32(count - start - 4)
    for i in 0..<4 { self[start + i] = UInt8(truncatingIfNeeded: length >> (24 - 8 * UInt32(i))) }
  }

  /// Appends a Bind of a prepared statement to parameters in text or binary form, for rows in binary
  /// form, and its execution.
  ///
  /// - Parameter formats: of the parameters: 0 for text, 1 for binary.
  mutating func append(
    call statement: String, formats: [UInt16], _ parameters: (inout [UInt8]) -> Void
  ) {
    append(message: "B") {
      $0.append(0)
      $0.append(zeroTerminated: statement)
      $0.append(bigEndian: UInt16(formats.count))
      for format in formats { $0.append(bigEndian: format) }
      $0.append(bigEndian: UInt16(formats.count))
      parameters(&$0)
      $0.append(bigEndian: UInt16(1))
      $0.append(bigEndian: UInt16(1))
    }
    self += PostgresMessages.execute
    self += PostgresMessages.sync
  }
}
