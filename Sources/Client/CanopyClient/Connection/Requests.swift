internal import CanopyTree
internal import CanopyWire
internal import NIOCore

/// The lines of requests, collected and sent in one piece.
struct RequestLines {
  private(set) var buffer = ByteBuffer()

  var isEmpty: Bool { buffer.readableBytes == 0 }

  /// Removes and returns the collected lines.
  mutating func take() -> ByteBuffer {
    defer { buffer = ByteBuffer() }
    return buffer
  }

  /// Adds a line.
  ///
  /// - Parameter write: appends the line without its terminator.
  /// - Returns: false if the line is too long; then nothing is added.
  mutating func add(bytesMax: Int, _ write: (inout JSONOutput) -> Void) -> Bool {
    guard let line = RequestLines.line(bytesMax: bytesMax, write) else { return false }
    add(line)
    return true
  }

  /// Adds a line with its terminator.
  mutating func add(_ line: ByteBuffer) {
    buffer.writeImmutableBuffer(line)
  }

  /// Returns a line with its terminator; nil if it is too long.
  static func line(bytesMax: Int, _ write: (inout JSONOutput) -> Void) -> ByteBuffer? {
    var output = JSONOutput(capacity: 128)
    write(&output)
    guard output.count <= bytesMax else { return nil }
    output.append(UInt8(ascii: "\n"))
    return output.withBytes { ByteBuffer(bytes: $0) }
  }
}

extension JSONOutput {
  /// Appends a path as an argument: quoted, as it may contain spaces.
  mutating func append(path: Path) {
    append(string: "/" + path.text)
  }

  /// Appends `ONCE client number seen `.
  mutating func append(once client: String, _ number: Int64, seen: Int64) {
    append("ONCE ")
    append(raw: client)
    append(" ")
    append(number)
    append(" ")
    append(seen)
    append(" ")
  }

  /// Appends a SET for one location, or an UPDATE for several.
  mutating func append(write: Write) {
    if write.items.count == 1, let item = write.items.first {
      append("SET ")
      append(string: "/" + item.location.text)
      append(" ")
      return append(item.value)
    }
    append("UPDATE / {")
    for (index, item) in write.items.enumerated() {
      if index > 0 { append(",") }
      append(string: item.location.text)
      append(":")
      append(item.value)
    }
    append("}")
  }

  /// Appends a LISTEN with `sync` events.
  mutating func append(listen spec: QuerySpec, since: Int64?) {
    append("LISTEN ")
    append(path: spec.path)
    append(" {\"events\":\"sync\"")
    if let since {
      append(",\"since\":")
      append(since)
    }
    append(optionsOf: spec.query)
    append("}")
  }

  /// Appends a GET with priorities.
  mutating func append(get spec: QuerySpec) {
    append("GET ")
    append(path: spec.path)
    append(" {\"export\":true")
    append(optionsOf: spec.query)
    append("}")
  }

  /// Appends the options of a query, each after a comma. An unbounded query has none.
  mutating func append(optionsOf query: Query) {
    guard !query.isUnbounded else { return }
    switch query.order {
    case .key: append(",\"orderBy\":\"$key\"")
    case .value: append(",\"orderBy\":\"$value\"")
    case .priority: break
    case .child(let path):
      append(",\"orderBy\":")
      append(string: path.text)
    }
    if let bound = query.lower {
      append(bound.isInclusive ? ",\"startAt\":" : ",\"startAfter\":")
      append(bound, query.order)
    }
    if let bound = query.upper {
      append(bound.isInclusive ? ",\"endAt\":" : ",\"endBefore\":")
      append(bound, query.order)
    }
    switch query.limit {
    case .first(let count):
      append(",\"limitToFirst\":")
      append(Int64(count))
    case .last(let count):
      append(",\"limitToLast\":")
      append(Int64(count))
    case nil: break
    }
  }

  private mutating func append(_ bound: Query.Bound, _ order: Order) {
    if order == .key, let key = bound.key { return append(key: key) }
    if bound.key != nil { append("[") }
    switch bound.value {
    case .absent: append("null")
    case .bool(let value): append(value ? "true" : "false")
    case .integer(let value): append(value)
    case .double(let value): append(value)
    case .string(let bytes): append(string: String(decoding: bytes, as: UTF8.self))
    }
    if let key = bound.key {
      append(",")
      append(key: key)
      append("]")
    }
  }
}
