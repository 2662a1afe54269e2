/// The messages of a client in PostgreSQL's protocol, version 3.
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

  /// Returns a simple query.
  static func query(_ text: String) -> [UInt8] {
    var message: [UInt8] = []
    message.append(message: "Q") { $0.append(zeroTerminated: text) }
    return message
  }

  /// Returns the messages that prepare named statements.
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

  /// A message that ends a request: the server commits and replies.
  static let sync: [UInt8] = [UInt8(ascii: "S"), 0, 0, 0, 4]
  /// A message that executes the bound statement, without a limit on the rows.
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

  /// Appends a message: its type, its length, and its contents.
  mutating func append(message kind: Unicode.Scalar, _ contents: (inout [UInt8]) -> Void) {
    append(UInt8(ascii: kind))
    let start = count
    append(bigEndian: UInt32(0))
    contents(&self)
    let length = UInt32(count - start)
    for i in 0..<4 { self[start + i] = UInt8(truncatingIfNeeded: length >> (24 - 8 * UInt32(i))) }
  }

  /// Appends a parameter of a Bind: its length and its contents.
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
  /// - Parameter formats: the formats of the parameters: 0 is text, 1 is binary.
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
