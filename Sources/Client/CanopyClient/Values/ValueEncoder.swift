/// Converts an `Encodable` to the form that `setValue` accepts: dictionaries, arrays, strings,
/// numbers and bools.
///
/// Omits members that are nil. As in Firebase's coder, a `Date` is seconds since 2001, `Data` is
/// text in Base64, and a `Decimal` is a number.
///
/// - Complexity: O(size).
struct ValueEncoder {
  /// Returns the value for `setValue`; nil if it encodes nothing.
  ///
  /// - Throws: the error of the value's own encoding.
  static func encode(_ value: some Encodable) throws -> Any? {
    let slot = Slot()
    try value.encode(to: Target(slot: slot, codingPath: []))
    return slot.value
  }
}

/// A slot that encoding containers fill, in any sequence.
private final class Slot {
  private enum Content {
    case nothing
    case single(Any?)
    case members([String: Slot])
    case elements([Slot])
  }

  private var content = Content.nothing

  var value: Any? {
    switch content {
    case .nothing: nil
    case .single(let value): value
    case .members(let members): members.compactMapValues(\.value) as [String: Any]
    case .elements(let elements): elements.map { $0.value ?? NSNull() } as [Any]
    }
  }

  var count: Int {
    if case .elements(let elements) = content { elements.count } else { 0 }
  }

  func set(_ value: Any?) {
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
  var userInfo: [CodingUserInfoKey: Any] { [:] }

  func container<Key: CodingKey>(keyedBy type: Key.Type) -> KeyedEncodingContainer<Key> {
    slot.beMembers()
    return KeyedEncodingContainer(Members<Key>(slot: slot, codingPath: codingPath))
  }

  func unkeyedContainer() -> any UnkeyedEncodingContainer {
    slot.beElements()
    return Elements(slot: slot, codingPath: codingPath)
  }

  func singleValueContainer() -> any SingleValueEncodingContainer {
    Single(slot: slot, codingPath: codingPath)
  }
}

extension Slot {
  func encode(_ value: some Encodable, _ codingPath: [any CodingKey]) throws {
    switch value {
    case let value as String: set(value)
    case let value as Bool: set(value)
    case let value as Double: set(value)
    case let value as any FixedWidthInteger: set(NSNumber(exactly: value))
    case let value as Float: set(Double(value))
    case let value as URL: set(value.absoluteString)
    case let value as Data: set(value.base64EncodedString())
    case let value as Decimal: set(value)
    default: try value.encode(to: Target(slot: self, codingPath: codingPath))
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

  func encodeNil(forKey key: Key) {}

  func encode(_ value: some Encodable, forKey key: Key) throws {
    try slot.member(key.stringValue).encode(value, codingPath + [key])
  }

  func nestedContainer<Nested: CodingKey>(
    keyedBy type: Nested.Type, forKey key: Key
  ) -> KeyedEncodingContainer<Nested> {
    target(key).container(keyedBy: type)
  }

  func nestedUnkeyedContainer(forKey key: Key) -> any UnkeyedEncodingContainer {
    target(key).unkeyedContainer()
  }

  func superEncoder() -> any Encoder {
    Target(slot: slot.member("super"), codingPath: codingPath)
  }

  func superEncoder(forKey key: Key) -> any Encoder { target(key) }

  private func target(_ key: Key) -> Target {
    Target(slot: slot.member(key.stringValue), codingPath: codingPath + [key])
  }
}

private struct Elements: UnkeyedEncodingContainer {
  let slot: Slot
  let codingPath: [any CodingKey]
  var count: Int { slot.count }

  func encodeNil() { slot.element().set(NSNull()) }

  func encode(_ value: some Encodable) throws {
    try slot.element().encode(value, codingPath)
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
    Target(slot: slot.element(), codingPath: codingPath)
  }
}

private struct Single: SingleValueEncodingContainer {
  let slot: Slot
  let codingPath: [any CodingKey]

  func encodeNil() { slot.set(nil) }

  func encode(_ value: some Encodable) throws {
    try slot.encode(value, codingPath)
  }
}
