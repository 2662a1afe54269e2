internal import CanopyTree

/// Decodes a `Decodable` from a node. A number decodes as any number type that holds it exactly,
/// and always as `Double` or `Float`; a branch decodes as a dictionary, a struct, or an array if
/// its keys are integers. An absent node is nil. Without other strategies, a `Decimal` is a number,
/// and `Data` is text in Base64.
///
/// - Complexity: O(size of the decoded data).
struct NodeDecoder: Decoder {
  let node: Node
  let codingPath: [any CodingKey]
  let options: DecodingOptions
  /// Whether an absent node is an error for a type with members.
  var needsData = false
  var userInfo: [CodingUserInfoKey: Any] { options.userInfo }

  /// Returns a value of the type.
  ///
  /// - Parameter needsData: whether an absent node is an error for a type with members; a collection is empty, and an
  ///   optional nil.
  /// - Throws: `DecodingError`, with the path of the mismatch.
  static func decode<T: Decodable>(
    _ type: T.Type, from node: Node, _ options: DecodingOptions = DecodingOptions(),
    needsData: Bool = false
  ) throws -> T {
    var decoder = NodeDecoder(node: node, codingPath: [], options: options)
    decoder.needsData = needsData && !(type is any EmptyWhenAbsent.Type)
    return try decoder.decode(type)
  }

  func container<Key: CodingKey>(keyedBy type: Key.Type) throws -> KeyedDecodingContainer<Key> {
    guard !node.isLeaf, !needsData || !node.isAbsent else {
      throw mismatch([String: Any].self, "an object")
    }
    return KeyedDecodingContainer(Members<Key>(decoder: self))
  }

  func unkeyedContainer() throws -> any UnkeyedDecodingContainer {
    guard !node.isLeaf, let elements = elements else { throw mismatch([Any].self, "an array") }
    return Elements(elements: elements, codingPath: codingPath, options: options)
  }

  func singleValueContainer() -> any SingleValueDecodingContainer { self }

  /// The children with integer keys from 0 up, including holes; nil if there are other keys, or
  /// more holes than children.
  private var elements: [Node]? {
    var elements: [Node] = []
    var isArray = true
    let count = node.childCount
    node.forEachChild { key, child in
      guard let index = key.integer, index >= 0, Int(index) < 2 * count else {
        isArray = false
        return false
      }
      while elements.count < Int(index) { elements.append(.absent) }
      elements.append(child)
      return true
    }
    return isArray ? elements : nil
  }

  fileprivate func mismatch(_ type: Any.Type, _ what: String) -> DecodingError {
    if node.isAbsent {
      return .valueNotFound(
        type, .init(codingPath: codingPath, debugDescription: "expected \(what), found nothing"))
    }
    return .typeMismatch(
      type,
      .init(codingPath: codingPath, debugDescription: "expected \(what), found \(node.kindInWords)")
    )
  }
}

extension NodeDecoder: SingleValueDecodingContainer {
  func decodeNil() -> Bool { node.isAbsent }

  func decode(_ type: Bool.Type) throws -> Bool {
    guard let value = node.boolValue else { throw mismatch(type, "a bool") }
    return value
  }

  func decode(_ type: String.Type) throws -> String {
    guard let value = node.stringValue else { throw mismatch(type, "a string") }
    return value
  }

  func decode(_ type: Double.Type) throws -> Double {
    guard let value = node.doubleValue ?? node.stringValue.flatMap(options.number(of:)) else {
      throw mismatch(type, "a number")
    }
    return value
  }

  func decode(_ type: Float.Type) throws -> Float { Float(try decode(Double.self)) }

  func decode(_ type: Int.Type) throws -> Int { try integer(type) }
  func decode(_ type: Int8.Type) throws -> Int8 { try integer(type) }
  func decode(_ type: Int16.Type) throws -> Int16 { try integer(type) }
  func decode(_ type: Int32.Type) throws -> Int32 { try integer(type) }
  func decode(_ type: Int64.Type) throws -> Int64 { try integer(type) }
  func decode(_ type: UInt.Type) throws -> UInt { try integer(type) }
  func decode(_ type: UInt8.Type) throws -> UInt8 { try integer(type) }
  func decode(_ type: UInt16.Type) throws -> UInt16 { try integer(type) }
  func decode(_ type: UInt32.Type) throws -> UInt32 { try integer(type) }

  func decode(_ type: UInt64.Type) throws -> UInt64 {
    // A number beyond signed integers is stored as a double.
    if node.integerValue == nil, let double = node.doubleValue, let value = UInt64(exactly: double)
    {
      return value
    }
    return try integer(type)
  }

  private func integer<T: FixedWidthInteger>(_ type: T.Type) throws -> T {
    guard let integer = node.integerValue, let value = T(exactly: integer) else {
      throw mismatch(type, "an integer of \(type)")
    }
    return value
  }

  func decode<T: Decodable>(_ type: T.Type) throws -> T {
    if type == URL.self {
      guard let text = node.stringValue, let url = URL(string: text) as? T else {
        throw mismatch(type, "the text of a URL")
      }
      return url
    }
    if type == Decimal.self, let value = try decimal() as? T { return value }
    if type == Data.self, let value = try data() as? T { return value }
    if type == Date.self, let value = try date() as? T { return value }
    if !options.keepsKeys, let type = type as? any StringKeyed.Type,
      let value = try type.decodeMembers(of: self) as? T
    {
      return value
    }
    return try T(from: self)
  }

  private func data() throws -> Data {
    switch options.data {
    case .deferredToData: return try Data(from: self)
    case .base64:
      guard let text = node.stringValue, let data = Data(base64Encoded: text) else {
        throw mismatch(Data.self, "text in Base64")
      }
      return data
    case .blob: throw mismatch(Data.self, "data, which the database cannot hold")
    case .custom(let body): return try body(self)
    }
  }

  private func date() throws -> Date {
    switch options.date {
    case .deferredToDate: return try Date(from: self)
    case .secondsSince1970: return Date(timeIntervalSince1970: try decode(Double.self))
    case .millisecondsSince1970:
      return Date(timeIntervalSince1970: try decode(Double.self) / 1_000)
    case .iso8601: return try date(options.formatter.date(from:))
    case .formatted(let formatter): return try date(formatter.date(from:))
    case .custom(let body): return try body(self)
    }
  }

  private func date(_ parse: (String) -> Date?) throws -> Date {
    guard let date = parse(try decode(String.self)) else {
      throw DecodingError.dataCorrupted(
        .init(codingPath: codingPath, debugDescription: "the text is not a date of this format"))
    }
    return date
  }

  private func decimal() throws -> Decimal {
    if let integer = node.integerValue { return Decimal(integer) }
    // The text has the digits that identify the number; Foundation's conversion adds others.
    guard let double = node.doubleValue, let decimal = Decimal(string: "\(double)") else {
      throw mismatch(Decimal.self, "a number")
    }
    return decimal
  }
}

private struct Members<Key: CodingKey>: KeyedDecodingContainerProtocol {
  let decoder: NodeDecoder
  /// The children by their converted keys; nil if keys stay as they are.
  private let converted: [String: Node]?
  var codingPath: [any CodingKey] { decoder.codingPath }

  init(decoder: NodeDecoder) {
    self.decoder = decoder
    guard !decoder.options.keepsKeys else {
      converted = nil
      return
    }
    var members: [String: Node] = [:]
    decoder.node.forEachChild { key, child in
      let name = decoder.options.name(of: key.text, in: decoder.codingPath)
      // If two names are equal, the first child is used.
      if members[name] == nil { members[name] = child }
      return true
    }
    converted = members
  }

  var allKeys: [Key] {
    if let converted { return converted.keys.compactMap { Key(stringValue: $0) } }
    var keys: [Key] = []
    decoder.node.forEachChild { key, _ in
      if let key = Key(stringValue: key.text) { keys.append(key) }
      return true
    }
    return keys
  }

  private func child(_ key: any CodingKey) -> NodeDecoder {
    let node =
      if let converted {
        converted[key.stringValue]
      } else {
        (try? CanopyTree.Key(key.stringValue)).map { decoder.node.child($0) }
      }
    return NodeDecoder(
      node: node ?? .absent, codingPath: codingPath + [key], options: decoder.options)
  }

  private func present(_ key: Key) throws -> NodeDecoder {
    let child = child(key)
    guard !child.node.isAbsent else {
      throw DecodingError.keyNotFound(
        key, .init(codingPath: codingPath, debugDescription: "there is no \(key.stringValue)"))
    }
    return child
  }

  func contains(_ key: Key) -> Bool { !child(key).node.isAbsent }

  func decodeNil(forKey key: Key) -> Bool { child(key).node.isAbsent }

  func decode<T: Decodable>(_ type: T.Type, forKey key: Key) throws -> T {
    let child = child(key)
    // The tree has no empty dictionaries and arrays: an absent node may be one.
    if child.node.isAbsent, type is any EmptyWhenAbsent.Type { return try child.decode(type) }
    return try present(key).decode(type)
  }

  func nestedContainer<Nested: CodingKey>(
    keyedBy type: Nested.Type, forKey key: Key
  ) throws -> KeyedDecodingContainer<Nested> {
    try child(key).container(keyedBy: type)
  }

  func nestedUnkeyedContainer(forKey key: Key) throws -> any UnkeyedDecodingContainer {
    try child(key).unkeyedContainer()
  }

  func superDecoder() -> any Decoder { child(PathKey(stringValue: "super")) }

  func superDecoder(forKey key: Key) -> any Decoder { child(key) }
}

/// A dictionary with strings as keys, which no strategy changes.
private protocol StringKeyed {
  static func decodeMembers(of decoder: NodeDecoder) throws -> Self
}

extension Dictionary: StringKeyed where Key == String, Value: Decodable {
  fileprivate static func decodeMembers(of decoder: NodeDecoder) throws -> Self {
    guard !decoder.node.isLeaf else { throw decoder.mismatch([String: Any].self, "an object") }
    var children: [(String, Node)] = []
    decoder.node.forEachChild { key, child in
      children.append((key.text, child))
      return true
    }
    var members: Self = [:]
    for (key, child) in children {
      members[key] = try NodeDecoder(
        node: child, codingPath: decoder.codingPath + [PathKey(stringValue: key)],
        options: decoder.options
      ).decode(Value.self)
    }
    return members
  }
}

/// A type whose empty value is stored as an absent node.
private protocol EmptyWhenAbsent {}
extension Dictionary: EmptyWhenAbsent {}
extension Array: EmptyWhenAbsent {}
extension Set: EmptyWhenAbsent {}

private struct Elements: UnkeyedDecodingContainer {
  let elements: [Node]
  let codingPath: [any CodingKey]
  let options: DecodingOptions
  var currentIndex = 0

  var count: Int? { elements.count }
  var isAtEnd: Bool { currentIndex >= elements.count }

  private mutating func next(_ type: Any.Type) throws -> NodeDecoder {
    guard !isAtEnd else {
      throw DecodingError.valueNotFound(
        type, .init(codingPath: codingPath, debugDescription: "the array has no more elements"))
    }
    defer { currentIndex += 1 }
    return NodeDecoder(
      node: elements[currentIndex], codingPath: codingPath + [PathKey(intValue: currentIndex)],
      options: options)
  }

  mutating func decodeNil() -> Bool {
    guard !isAtEnd, elements[currentIndex].isAbsent else { return false }
    currentIndex += 1
    return true
  }

  mutating func decode<T: Decodable>(_ type: T.Type) throws -> T {
    try next(type).decode(type)
  }

  mutating func nestedContainer<Nested: CodingKey>(
    keyedBy type: Nested.Type
  ) throws -> KeyedDecodingContainer<Nested> {
    try next([String: Any].self).container(keyedBy: type)
  }

  mutating func nestedUnkeyedContainer() throws -> any UnkeyedDecodingContainer {
    try next([Any].self).unkeyedContainer()
  }

  mutating func superDecoder() throws -> any Decoder {
    try next((any Decodable).self)
  }
}

extension Node {
  /// The kind of the value, with an article.
  fileprivate var kindInWords: String {
    switch value {
    case .absent: "nothing"
    case .bool: "a bool"
    case .integer, .double: "a number"
    case .string: "a string"
    case .branch: "an object"
    }
  }
}
