extension DatabaseReference {
  /// Replaces the value of this location by an `Encodable` value.
  ///
  /// - Parameters:
  ///   - encoder: the encoder, with its strategies.
  ///   - completion: receives nil when the server has committed it, else a `DatabaseError`.
  /// - Throws: the error of encoding it.
  public func setValue(
    from value: some Encodable, encoder: Database.Encoder,
    @_inheritActorContext completion: (@Sendable @isolated(any) ((any Error)?) -> Void)? = nil
  ) throws {
    let value = try encoder.encode(value)
    set(value, nil, completion.map { answer(Callback(of: $0)) })
  }
}

extension DataSnapshot {
  /// Returns the data as a value of a type.
  ///
  /// - Throws: `DecodingError`.
  public func data<T: Decodable>(as type: T.Type, decoder: Database.Decoder) throws -> T {
    try NodeDecoder.decode(type, from: node, decoder.options, needsData: true)
  }
}

/// A time that the server sets if it is nil when it is written. It is stored in milliseconds since
/// 1970.
@propertyWrapper
public struct ServerTimestamp: Codable, Equatable, Hashable, Sendable {
  /// The time; nil until the server has set it.
  public var wrappedValue: Date?

  /// Creates a time.
  public init(wrappedValue: Date?) {
    self.wrappedValue = wrappedValue
  }

  /// Decodes the milliseconds.
  public init(from decoder: any Swift.Decoder) throws {
    let container = try decoder.singleValueContainer()
    let milliseconds = container.decodeNil() ? nil : try container.decode(Double.self)
    wrappedValue = milliseconds.map { Date(timeIntervalSince1970: $0 / 1_000) }
  }

  /// Encodes the milliseconds, or the placeholder for the server's time.
  public func encode(to encoder: any Swift.Encoder) throws {
    var container = encoder.singleValueContainer()
    if let wrappedValue {
      try container.encode((wrappedValue.timeIntervalSince1970 * 1_000).rounded())
    } else {
      try container.encode([".sv": "timestamp"])
    }
  }
}

/// A value that is written as `NSNull` if it is nil. The database stores no nulls, so this removes the
/// child even in an update, in which a missing member leaves it unchanged.
@propertyWrapper
public struct ExplicitNull<Value> {
  /// The value.
  public var wrappedValue: Value?

  /// Creates a value.
  public init(wrappedValue: Value?) {
    self.wrappedValue = wrappedValue
  }
}

extension ExplicitNull: Equatable where Value: Equatable {}
extension ExplicitNull: Hashable where Value: Hashable {}
extension ExplicitNull: Sendable where Value: Sendable {}

extension ExplicitNull: Encodable where Value: Encodable {
  /// Encodes the value, or null.
  public func encode(to encoder: any Swift.Encoder) throws {
    var container = encoder.singleValueContainer()
    if let wrappedValue {
      try container.encode(wrappedValue)
    } else {
      try container.encode(Null())
    }
  }
}

extension ExplicitNull: Decodable where Value: Decodable {
  /// Decodes the value; nil if there is none.
  public init(from decoder: any Swift.Decoder) throws {
    let container = try decoder.singleValueContainer()
    wrappedValue = container.decodeNil() ? nil : try container.decode(Value.self)
  }
}

/// A value that `ValueEncoder` encodes as `NSNull`.
struct Null: Encodable {
  func encode(to encoder: any Swift.Encoder) throws {
    var container = encoder.singleValueContainer()
    try container.encodeNil()
  }
}

// The database stores no nulls, so the member of a nil value is missing when it is read.
extension KeyedDecodingContainer {
  /// Decodes a member that may be missing.
  public func decode<Value: Decodable>(
    _ type: ExplicitNull<Value>.Type, forKey key: Key
  ) throws -> ExplicitNull<Value> {
    try decodeIfPresent(type, forKey: key) ?? ExplicitNull(wrappedValue: nil)
  }

  /// Decodes a member that may be missing.
  public func decode(_ type: ServerTimestamp.Type, forKey key: Key) throws -> ServerTimestamp {
    try decodeIfPresent(type, forKey: key) ?? ServerTimestamp(wrappedValue: nil)
  }
}
