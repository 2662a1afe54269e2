extension Database {
  /// An encoder of values for `setValue`, with the strategies of Firebase's.
  ///
  /// A strategy that is set later holds for later values. An encoder belongs to one thread at a time.
  public final class Encoder {
    /// The forms of a `Date`.
    public enum DateEncodingStrategy {
      /// The form that `Date` chooses: seconds since 2001.
      case deferredToDate
      /// Seconds since 1970.
      case secondsSince1970
      /// Milliseconds since 1970, as the server's timestamps.
      case millisecondsSince1970
      /// Text as in ISO 8601: `2026-03-01T12:00:00Z`.
      case iso8601
      /// Text of a formatter.
      case formatted(DateFormatter)
      /// The form that a function encodes.
      case custom((Date, any Swift.Encoder) throws -> Void)
    }

    /// The forms of `Data`.
    public enum DataEncodingStrategy {
      /// The form that `Data` chooses: an array of bytes.
      case deferredToData
      /// Text in Base64.
      case base64
      /// The `Data` itself, which `setValue` refuses.
      case blob
      /// The form that a function encodes.
      case custom((Data, any Swift.Encoder) throws -> Void)
    }

    /// The forms of numbers that are infinite, or not numbers.
    public enum NonConformingFloatEncodingStrategy {
      /// No form: the encoder throws an `EncodingError`.
      case `throw`
      /// The given texts.
      case convertToString(positiveInfinity: String, negativeInfinity: String, nan: String)
    }

    /// The forms of keys. The keys of a dictionary with strings as keys always stay.
    public enum KeyEncodingStrategy {
      /// The keys of the types.
      case useDefaultKeys
      /// Snake case: `oneTwoThree` becomes `one_two_three`.
      case convertToSnakeCase
      /// The key that a function returns for a path, in place of the last key of the path.
      case custom((_ codingPath: [any CodingKey]) -> any CodingKey)
    }

    /// The form of dates: `deferredToDate` at first.
    public var dateEncodingStrategy = DateEncodingStrategy.deferredToDate
    /// The form of `Data`: `base64` at first.
    public var dataEncodingStrategy = DataEncodingStrategy.base64
    /// The form of numbers that are infinite, or not numbers: `throw` at first.
    public var nonConformingFloatEncodingStrategy = NonConformingFloatEncodingStrategy.throw
    /// The form of keys: `useDefaultKeys` at first.
    public var keyEncodingStrategy = KeyEncodingStrategy.useDefaultKeys
    /// Values for the `encode(to:)` of the application's types.
    public var userInfo: [CodingUserInfoKey: Any] = [:]

    /// Creates an encoder.
    public init() {}

    /// Returns the value for `setValue`: dictionaries, arrays, strings, numbers, bools and `NSNull`.
    ///
    /// - Throws: the error of the value's own encoding; `EncodingError` if it encodes nothing.
    public func encode(_ value: some Encodable) throws -> Any {
      let options = EncodingOptions()
      options.date = dateEncodingStrategy
      options.data = dataEncodingStrategy
      options.float = nonConformingFloatEncodingStrategy
      options.keys = keyEncodingStrategy
      options.userInfo = userInfo
      return try ValueEncoder.encode(value, options)
    }
  }
}

/// The strategies of one encoding.
final class EncodingOptions {
  var date = Database.Encoder.DateEncodingStrategy.deferredToDate
  var data = Database.Encoder.DataEncodingStrategy.base64
  var float = Database.Encoder.NonConformingFloatEncodingStrategy.throw
  var keys = Database.Encoder.KeyEncodingStrategy.useDefaultKeys
  var userInfo: [CodingUserInfoKey: Any] = [:]
  lazy var formatter = ISO8601DateFormatter()

  /// Whether keys stay as they are.
  var keepsKeys: Bool {
    if case .useDefaultKeys = keys { true } else { false }
  }

  /// Returns the name of a member.
  func name(of key: any CodingKey, in path: [any CodingKey]) -> String {
    switch keys {
    case .useDefaultKeys: key.stringValue
    case .convertToSnakeCase: key.stringValue.snakeCased
    case .custom(let convert): convert(path + [key]).stringValue
    }
  }

  /// Returns the form of a number.
  ///
  /// - Throws: `EncodingError` if the number has none.
  func form(of number: Double, _ path: [any CodingKey]) throws -> Any {
    guard !number.isFinite else { return number }
    guard case .convertToString(let positive, let negative, let nan) = float else {
      throw EncodingError.invalidValue(
        number,
        .init(
          codingPath: path,
          debugDescription:
            "a number must be finite; set nonConformingFloatEncodingStrategy to encode it as text"))
    }
    if number.isNaN { return nan }
    return number > 0 ? positive : negative
  }
}
