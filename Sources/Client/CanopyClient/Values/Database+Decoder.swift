internal import CanopyTree

extension Database {
  /// A decoder of values that a snapshot returns, with the strategies of Firebase's.
  ///
  /// A strategy that is set later holds for later values. A decoder belongs to one thread at a time.
  public final class Decoder {
    /// The forms of a `Date`.
    public enum DateDecodingStrategy {
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
      /// The form that a function decodes.
      case custom((_ decoder: any Swift.Decoder) throws -> Date)
    }

    /// The forms of `Data`.
    public enum DataDecodingStrategy {
      /// The form that `Data` chooses: an array of bytes.
      case deferredToData
      /// Text in Base64.
      case base64
      /// The `Data` itself, which the database cannot hold: decoding fails.
      case blob
      /// The form that a function decodes.
      case custom((_ decoder: any Swift.Decoder) throws -> Data)
    }

    /// The forms of numbers that are infinite, or not numbers.
    public enum NonConformingFloatDecodingStrategy {
      /// Throws for text; only numbers are accepted.
      case `throw`
      /// The given texts.
      case convertFromString(positiveInfinity: String, negativeInfinity: String, nan: String)
    }

    /// The forms of keys. The keys of a dictionary with strings as keys always stay.
    public enum KeyDecodingStrategy {
      /// The keys of the types.
      case useDefaultKeys
      /// Snake case: `one_two_three` is found as `oneTwoThree`.
      case convertFromSnakeCase
      /// The key that a function returns for a path, in place of the last key of the path.
      case custom((_ codingPath: [any CodingKey]) -> any CodingKey)
    }

    /// The form of dates: `deferredToDate` at first.
    public var dateDecodingStrategy = DateDecodingStrategy.deferredToDate
    /// The form of `Data`: `base64` at first.
    public var dataDecodingStrategy = DataDecodingStrategy.base64
    /// The form of numbers that are infinite, or not numbers: `throw` at first.
    public var nonConformingFloatDecodingStrategy = NonConformingFloatDecodingStrategy.throw
    /// The form of keys: `useDefaultKeys` at first.
    public var keyDecodingStrategy = KeyDecodingStrategy.useDefaultKeys
    /// Values for the `init(from:)` of the application's types.
    public var userInfo: [CodingUserInfoKey: Any] = [:]

    /// Creates a decoder.
    public init() {}

    /// Returns a value of a type.
    ///
    /// - Parameter value: the `value` of a snapshot, or another value that `setValue` accepts.
    /// - Throws: `DecodingError`, or `DatabaseError` if the database cannot store the value.
    public func decode<T: Decodable>(_ type: T.Type, from value: Any) throws -> T {
      try NodeDecoder.decode(type, from: try AnyValue.write(value).node, options)
    }

    var options: DecodingOptions {
      let options = DecodingOptions()
      options.date = dateDecodingStrategy
      options.data = dataDecodingStrategy
      options.float = nonConformingFloatDecodingStrategy
      options.keys = keyDecodingStrategy
      options.userInfo = userInfo
      return options
    }
  }
}

/// The strategies of one decoding.
final class DecodingOptions {
  var date = Database.Decoder.DateDecodingStrategy.deferredToDate
  var data = Database.Decoder.DataDecodingStrategy.base64
  var float = Database.Decoder.NonConformingFloatDecodingStrategy.throw
  var keys = Database.Decoder.KeyDecodingStrategy.useDefaultKeys
  var userInfo: [CodingUserInfoKey: Any] = [:]
  lazy var formatter = ISO8601DateFormatter()

  /// Whether keys stay as they are.
  var keepsKeys: Bool {
    if case .useDefaultKeys = keys { true } else { false }
  }

  /// Returns the key by which a type finds a member.
  func name(of key: String, in path: [any CodingKey]) -> String {
    switch keys {
    case .useDefaultKeys: key
    case .convertFromSnakeCase: key.camelCased
    case .custom(let convert): convert(path + [PathKey(stringValue: key)]).stringValue
    }
  }

  /// Returns the number that a text stands for; nil if it stands for none.
  func number(of text: String) -> Double? {
    guard case .convertFromString(let positive, let negative, let nan) = float else { return nil }
    switch text {
    case positive: return .infinity
    case negative: return -.infinity
    case nan: return .nan
    default: return nil
    }
  }
}

/// A key of a coding path that no type declares: a key of a dictionary, or an index of an array.
struct PathKey: CodingKey {
  let stringValue: String
  let intValue: Int?

  init(stringValue: String) {
    self.stringValue = stringValue
    intValue = nil
  }

  init(intValue: Int) {
    stringValue = "Index \(intValue)"
    self.intValue = intValue
  }
}
