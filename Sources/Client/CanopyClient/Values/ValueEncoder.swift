/// Converts an `Encodable` to the form that `setValue` accepts: dictionaries, arrays, strings,
/// numbers and bools.
///
/// As Firebase's coder without other strategies, a `Date` is seconds since 2001, `Data` is text in
/// Base64, and a `Decimal` is a number.
///
/// - Complexity: O(size).
struct ValueEncoder {
  /// Returns the value for `setValue`.
  ///
  /// - Throws: the error of the value's own encoding; `EncodingError` if it encodes nothing.
  static func encode(
    _ value: some Encodable, _ options: EncodingOptions = EncodingOptions()
  ) throws -> Any {
    let slot = Slot()
    try slot.encode(value, [], options)
    guard !slot.isUnused else {
      throw EncodingError.invalidValue(
        value,
        .init(codingPath: [], debugDescription: "\(type(of: value)) encodes nothing"))
    }
    return slot.value
  }
}

/// A slot that encoding containers fill, in any sequence.
private final class Slot {
  private enum Content {
    case nothing
    case single(Any)
    case members([String: Slot])
    case elements([Slot])
  }

  private var content = Content.nothing

  /// Whether nothing was encoded.
  var isUnused: Bool {
    if case .nothing = content { true } else { false }
  }

  var value: Any {
    switch content {
    case .nothing: [:] as [String: Any]
    case .single(let value): value
    case .members(let members): members.mapValues(\.value) as [String: Any]
    case .elements(let elements): elements.map(\.value) as [Any]
    }
  }

  var count: Int {
    if case .elements(let elements) = content { elements.count } else { 0 }
  }

  func set(_ value: Any) {
    content = .single(value)
  }

  func beMembers() {
    if case .members = content { return }
    content = .members([:])
  }

  func beElements() {
    if case .elements = content { return }
    content = .elements([])
  }

  func member(_ name: String) -> Slot {
    guard case .members(var members) = content else { return Slot() }
    let slot = members[name] ?? Slot()
    // Releases the other reference to the table, so that it is not copied.
    content = .nothing
    members[name] = slot
    content = .members(members)
    return slot
  }

  func element() -> Slot {
    guard case .elements(var elements) = content else { return Slot() }
    let slot = Slot()
    content = .nothing
    elements.append(slot)
    content = .elements(elements)
    return slot
  }
}

private struct Target: Encoder {
  let slot: Slot
  let codingPath: [any CodingKey]
  let options: EncodingOptions
  var userInfo: [CodingUserInfoKey: Any] { options.userInfo }

  func container<Key: CodingKey>(keyedBy type: Key.Type) -> KeyedEncodingContainer<Key> {
    slot.beMembers()
    return KeyedEncodingContainer(
      Members<Key>(slot: slot, codingPath: codingPath, options: options))
  }

  func unkeyedContainer() -> any UnkeyedEncodingContainer {
    slot.beElements()
    return Elements(slot: slot, codingPath: codingPath, options: options)
  }

  func singleValueContainer() -> any SingleValueEncodingContainer {
    Single(slot: slot, codingPath: codingPath, options: options)
  }
}

extension Slot {
  func encode(
    _ value: some Encodable, _ path: [any CodingKey], _ options: EncodingOptions
  ) throws {
    switch value {
    case let value as String: set(value)
    case let value as Bool: set(value)
    case let value as Double: set(try options.form(of: value, path))
    case let value as any FixedWidthInteger: set(NSNumber(exactly: value))
    case let value as Float: set(try options.form(of: Double(value), path))
    case let value as URL: set(value.absoluteString)
    case let value as Data: try encode(data: value, path, options)
    case let value as Date: try encode(date: value, path, options)
    case let value as Decimal: set(value)
    case is Null: set(NSNull())
    default:
      if !options.keepsKeys, let value = value as? any StringKeyed {
        try value.encodeMembers(in: self, path, options)
      } else {
        try value.encode(to: Target(slot: self, codingPath: path, options: options))
      }
    }
  }

  private func encode(
    date: Date, _ path: [any CodingKey], _ options: EncodingOptions
  ) throws {
    let target = Target(slot: self, codingPath: path, options: options)
    switch options.date {
    case .deferredToDate: try date.encode(to: target)
    case .secondsSince1970: set(try options.form(of: date.timeIntervalSince1970, path))
    case .millisecondsSince1970:
      set(try options.form(of: date.timeIntervalSince1970 * 1_000, path))
    case .iso8601: set(options.formatter.string(from: date))
    case .formatted(let formatter): set(formatter.string(from: date))
    case .custom(let body):
      try body(date, target)
      if isUnused { beMembers() }
    }
  }

  private func encode(
    data: Data, _ path: [any CodingKey], _ options: EncodingOptions
  ) throws {
    let target = Target(slot: self, codingPath: path, options: options)
    switch options.data {
    case .deferredToData: try data.encode(to: target)
    case .base64: set(data.base64EncodedString())
    case .blob: set(data)
    case .custom(let body):
      try body(data, target)
      if isUnused { beMembers() }
    }
  }
}

/// A dictionary with strings as keys, which no strategy changes.
private protocol StringKeyed {
  func encodeMembers(
    in slot: Slot, _ path: [any CodingKey], _ options: EncodingOptions
  ) throws
}

extension Dictionary: StringKeyed where Key == String, Value: Encodable {
  fileprivate func encodeMembers(
    in slot: Slot, _ path: [any CodingKey], _ options: EncodingOptions
  ) throws {
    slot.beMembers()
    for (key, value) in self {
      try slot.member(key).encode(value, path + [PathKey(stringValue: key)], options)
    }
  }
}

extension NSNumber {
  /// Creates the number of an integer of any width; beyond 64 bits the nearest double.
  fileprivate convenience init(exactly value: any FixedWidthInteger) {
    if let value = Int64(exactly: value) {
      self.init(value: value)
    } else if let value = UInt64(exactly: value) {
      self.init(value: value)
    } else {
      self.init(value: Double(value))
    }
  }
}

private struct Members<Key: CodingKey>: KeyedEncodingContainerProtocol {
  let slot: Slot
  let codingPath: [any CodingKey]
  let options: EncodingOptions

  func encodeNil(forKey key: Key) { member(key).set(NSNull()) }

  func encode(_ value: some Encodable, forKey key: Key) throws {
    try member(key).encode(value, codingPath + [key], options)
  }

  func nestedContainer<Nested: CodingKey>(
    keyedBy type: Nested.Type, forKey key: Key
  ) -> KeyedEncodingContainer<Nested> {
    target(key).container(keyedBy: type)
  }

  func nestedUnkeyedContainer(forKey key: Key) -> any UnkeyedEncodingContainer {
    target(key).unkeyedContainer()
  }

  func superEncoder() -> any Encoder { target(PathKey(stringValue: "super")) }

  func superEncoder(forKey key: Key) -> any Encoder { target(key) }

  private func member(_ key: any CodingKey) -> Slot {
    slot.member(options.name(of: key, in: codingPath))
  }

  private func target(_ key: any CodingKey) -> Target {
    Target(slot: member(key), codingPath: codingPath + [key], options: options)
  }
}

private struct Elements: UnkeyedEncodingContainer {
  let slot: Slot
  let codingPath: [any CodingKey]
  let options: EncodingOptions
  var count: Int { slot.count }

  func encodeNil() { slot.element().set(NSNull()) }

  func encode(_ value: some Encodable) throws {
    let path = codingPath + [PathKey(intValue: count)]
    try slot.element().encode(value, path, options)
  }

  func nestedContainer<Nested: CodingKey>(
    keyedBy type: Nested.Type
  ) -> KeyedEncodingContainer<Nested> {
    superEncoder().container(keyedBy: type)
  }

  func nestedUnkeyedContainer() -> any UnkeyedEncodingContainer {
    superEncoder().unkeyedContainer()
  }

  func superEncoder() -> any Encoder {
    let path = codingPath + [PathKey(intValue: count)]
    return Target(slot: slot.element(), codingPath: path, options: options)
  }
}

private struct Single: SingleValueEncodingContainer {
  let slot: Slot
  let codingPath: [any CodingKey]
  let options: EncodingOptions

  func encodeNil() { slot.set(NSNull()) }

  func encode(_ value: some Encodable) throws {
    try slot.encode(value, codingPath, options)
  }
}
