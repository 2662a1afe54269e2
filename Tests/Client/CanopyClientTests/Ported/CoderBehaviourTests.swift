import CanopyTesting
import CanopyTree
import Foundation
import Testing

@testable import CanopyClient

/// Types of an application that are written and read, as by the original client's coders.
@Suite(.timeLimit(.minutes(20))) struct CoderBehaviourTests {
  /// Writes a value, and expects it to be stored as JSON and to be read again.
  private func roundTrip<T: Codable & Equatable>(
    _ value: T, _ text: String, at place: DatabaseReference, _ backend: Backend
  ) async throws {
    try await place.setValue(from: value)
    #expect(try backend.node("t") == json(text), "\(value)")
    let snapshot = try await place.getData()
    #expect(try snapshot.data(as: T.self) == value)
    // The coders by themselves, too.
    let encoded = try Database.Encoder().encode(value)
    #expect(try AnyValue.write(encoded).node == json(text))
    #expect(try Database.Decoder().decode(T.self, from: encoded) == value)
  }

  private struct Optionals: Codable, Equatable {
    var x: Int
    var opt: Int?
  }

  private struct Text: Codable, Equatable { var s: String }
  private struct Small: Codable, Equatable { var x: Int8 }
  private struct Nothing: Codable, Equatable {}

  @Test(
    .ported(
      "FirebaseDatabaseEncoderTests.testBadValue", "FirebaseDatabaseEncoderTests.testEmpty",
      "FirebaseDatabaseEncoderTests.testInt", "FirebaseDatabaseEncoderTests.testNullDecodesAsNil",
      "FirebaseDatabaseEncoderTests.testOptional", "FirebaseDatabaseEncoderTests.testString",
      "FirebaseDatabaseEncoderTests.testValueTooBig"), arguments: WireKind.allCases)
  func `numbers, texts and optionals are written and read, and other types are refused`(
    _ kind: WireKind
  )
    async throws
  {
    try await withPair(over: kind) { backend, place, _ in
      try await roundTrip(Optionals(x: 42, opt: nil), #"{"x":42}"#, at: place, backend)
      try await roundTrip(Optionals(x: 42, opt: 7), #"{"opt":7,"x":42}"#, at: place, backend)
      try await roundTrip(Text(s: "abc"), #"{"s":"abc"}"#, at: place, backend)
      try await roundTrip(Small(x: 127), #"{"x":127}"#, at: place, backend)
      try await place.setValue(from: Nothing())
      #expect(try await !place.getData().exists())
      #expect(
        try Database.Decoder().decode(Nothing.self, from: Database.Encoder().encode(Nothing()))
          == Nothing())
      #expect(try await place.getData().data(as: Int?.self) == nil)
      #expect(try Database.Decoder().decode(Int?.self, from: NSNull()) == nil)
      let bad: [[String: Any]] = [
        ["x": 42, "opt": true], ["x": 42, "opt": "abc"], ["x": 45.55, "opt": 5], ["opt": 5],
        ["x": "abc"],
      ]
      for value in bad {
        try await place.setValue(value)
        let snapshot = try await place.getData()
        #expect(throws: DecodingError.self) { try snapshot.data(as: Optionals.self) }
      }
      try await place.setValue(["x": 128])
      let snapshot = try await place.getData()
      #expect(throws: DecodingError.self) { try snapshot.data(as: Small.self) }
    }
  }

  @Test(
    .ported(
      "DataSnapshotTests.testGetNonExistingValueFailure",
      "DataSnapshotTests.testGetNonExistingValueOptional",
      "DataSnapshotTests.testGetValue", "DataSnapshotTests.testGetValueOptional"),
    arguments: WireKind.allCases)
  func `absent data are no value of a type with members, and nil for an optional`(_ kind: WireKind)
    async throws
  {
    struct Loose: Codable, Equatable { var x: Int? }
    try await withPair(over: kind) { _, place, _ in
      let absent = try await place.getData()
      #expect(try absent.data(as: Loose?.self) == nil)
      let error = #expect(throws: DecodingError.self) { try absent.data(as: Loose.self) }
      guard case .valueNotFound? = error else {
        Issue.record("\(String(describing: error))")
        return
      }
      #expect(throws: DecodingError.self) {
        try absent.data(as: Loose.self, decoder: Database.Decoder())
      }
      // The database has no empty collections.
      #expect(try absent.data(as: [String: Int].self) == [:])
      #expect(try absent.data(as: [Loose].self) == [])
      try await place.setValue(["x": 1])
      let present = try await place.getData()
      #expect(try present.data(as: Loose.self) == Loose(x: 1))
      #expect(try present.data(as: Loose?.self) == Loose(x: 1))
    }
  }

  private struct Beans: Codable, Equatable {
    var s = "abc"
    var d = 123.0
    var f: Float = -4
    var l: CLongLong = 1_234_567_890_123
    var i = -4444
    var b = false
    var sh: CShort = 123
    var byte: CChar = 45
    var uchar: CUnsignedChar = 44
    var ai = [1, 2, 3, 4]
    var si = ["abc", "def"]
    var caseSensitive = "aaa"
    var casESensitive = "bbb"
  }

  private struct Partial: Codable, Equatable {
    var s: String
    var ms = "filler"

    enum CodingKeys: String, CodingKey { case s }
  }

  @Test(
    .ported(
      "FirebaseDatabaseEncoderTests.testBeans",
      "FirebaseDatabaseEncoderTests.testCodingKeysCanCustomizeEncodingAndDecoding"),
    arguments: WireKind.allCases)
  func `members of every type are written by their coding keys`(_ kind: WireKind) async throws {
    try await withPair(over: kind) { backend, place, _ in
      try await roundTrip(
        Beans(),
        #"{"s":"abc","d":123,"f":-4,"l":1234567890123,"i":-4444,"b":false,"sh":123,"byte":45,"#
          + #""uchar":44,"ai":[1,2,3,4],"si":["abc","def"],"caseSensitive":"aaa","#
          + #""casESensitive":"bbb"}"#, at: place, backend)
      try await place.setValue(from: Partial(s: "abc", ms: "dummy"))
      #expect(try backend.node("t") == json(#"{"s":"abc"}"#))
      #expect(try await place.getData().data(as: Partial.self) == Partial(s: "abc"))
    }
  }

  private enum Choice: Codable, Equatable {
    case number(Int)
    case text(String)

    private enum CodingKeys: String, CodingKey { case number, text }

    init(from decoder: any Decoder) throws {
      let members = try decoder.container(keyedBy: CodingKeys.self)
      if let number = try? members.decode(Int.self, forKey: .number) {
        self = .number(number)
      } else {
        self = .text(try members.decode(String.self, forKey: .text))
      }
    }

    func encode(to encoder: any Encoder) throws {
      var members = encoder.container(keyedBy: CodingKeys.self)
      switch self {
      case .number(let number): try members.encode(number, forKey: .number)
      case .text(let text): try members.encode(text, forKey: .text)
      }
    }
  }

  private struct Group: Codable, Equatable {
    var name: String
    var list: [Small]
    var map: [String: Text]
  }

  /// A flat type whose data have two levels.
  private struct Flat: Codable, Equatable {
    var id: Int64
    var name: String

    private enum CodingKeys: CodingKey { case id, nested }
    private enum NestedKeys: CodingKey { case name }

    init(id: Int64, name: String) {
      self.id = id
      self.name = name
    }

    init(from decoder: any Decoder) throws {
      let members = try decoder.container(keyedBy: CodingKeys.self)
      id = try members.decode(Int64.self, forKey: .id)
      name = try members.nestedContainer(keyedBy: NestedKeys.self, forKey: .nested)
        .decode(String.self, forKey: .name)
    }

    func encode(to encoder: any Encoder) throws {
      var members = encoder.container(keyedBy: CodingKeys.self)
      try members.encode(id, forKey: .id)
      var nested = members.nestedContainer(keyedBy: NestedKeys.self, forKey: .nested)
      try nested.encode(name, forKey: .name)
    }
  }

  @Test(
    .ported(
      "FirebaseDatabaseEncoderTests.testCollapsingNestedObjects",
      "FirebaseDatabaseEncoderTests.testEnum", "FirebaseDatabaseEncoderTests.testNestedObjects"),
    arguments: WireKind.allCases)
  func `nested types and own forms are written and read`(_ kind: WireKind) async throws {
    try await withPair(over: kind) { backend, place, _ in
      try await roundTrip(
        ["e": Choice.number(4), "f": .text("abc")], #"{"e":{"number":4},"f":{"text":"abc"}}"#,
        at: place, backend)
      try await roundTrip(
        Group(name: "g", list: [Small(x: 1), Small(x: 2)], map: ["a": Text(s: "x")]),
        #"{"name":"g","list":[{"x":1},{"x":2}],"map":{"a":{"s":"x"}}}"#, at: place, backend)
      try await roundTrip(
        Flat(id: 5, name: "n"), #"{"id":5,"nested":{"name":"n"}}"#, at: place, backend)
    }
  }

  private class Above: Codable {
    var power: Double

    init(power: Double) { self.power = power }
  }

  private final class Below: Above, Equatable {
    var seconds: Double

    private enum CodingKeys: CodingKey { case seconds }

    init(power: Double, seconds: Double) {
      self.seconds = seconds
      super.init(power: power)
    }

    required init(from decoder: any Decoder) throws {
      let members = try decoder.container(keyedBy: CodingKeys.self)
      seconds = try members.decode(Double.self, forKey: .seconds)
      try super.init(from: members.superDecoder())
    }

    override func encode(to encoder: any Encoder) throws {
      var members = encoder.container(keyedBy: CodingKeys.self)
      try members.encode(seconds, forKey: .seconds)
      try super.encode(to: members.superEncoder())
    }

    static func == (a: Below, b: Below) -> Bool {
      a.power == b.power && a.seconds == b.seconds
    }
  }

  @Test(.ported("FirebaseDatabaseEncoderTests.testClassHierarchy"), arguments: WireKind.allCases)
  func `the members of a superclass are in a child of their own`(_ kind: WireKind) async throws {
    try await withPair(over: kind) { backend, place, _ in
      try await roundTrip(
        Below(power: 100, seconds: 1.5), #"{"seconds":1.5,"super":{"power":100}}"#, at: place,
        backend)
    }
  }

  private struct Moment: Codable, Equatable {
    @ServerTimestamp var timestamp: Date?
  }

  @Test(
    .ported("ServerTimestampTests.testDateRoundTrip", "ServerTimestampTests.testTimestampEncoding"),
    arguments: WireKind.allCases)
  func `a time is stored in milliseconds, and a missing one is that of the server`(_ kind: WireKind)
    async throws
  {
    try await withPair(over: kind) { backend, place, _ in
      try await roundTrip(
        Moment(timestamp: Date(timeIntervalSince1970: 123_456_789.123)),
        #"{"timestamp":123456789123}"#, at: place, backend)
      let encoded = try Database.Encoder().encode(Moment(timestamp: nil)) as? [String: Any]
      #expect(encoded?["timestamp"] as? [String: String] == [".sv": "timestamp"])
      try await place.setValue(from: Moment(timestamp: nil))
      #expect(try backend.node("t/timestamp").integerValue == backend.parts.clock.now)
      let read = try await place.getData().data(as: Moment.self)
      #expect(
        read.timestamp == Date(timeIntervalSince1970: Double(backend.parts.clock.now) / 1_000))
    }
  }

  @Test(
    .ported(
      "DatabaseReferenceTests.testSetValueEncodable",
      "DatabaseReferenceTests.testSetValueEncodableWithCompletion"), arguments: WireKind.allCases)
  func `a value is written with and without a completion`(_ kind: WireKind) async throws {
    try await withPair(over: kind) { backend, place, _ in
      let errors = Received<String>()
      try start(place, errors)
      #expect(await errors.wait(for: 1) == ["ok"])
      #expect(try backend.node("t") == json(#"{"a":{"s":"hello"},"b":{"s":"again"}}"#))
      #expect(try await place.child("a").getData().data(as: Text.self) == Text(s: "hello"))
    }
  }

  // Without `async`, so that Swift takes the forms that do not wait.
  private func start(_ place: DatabaseReference, _ errors: Received<String>) throws {
    try place.child("a").setValue(from: Text(s: "hello"))
    try place.child("b").setValue(from: Text(s: "again"), encoder: Database.Encoder()) { error in
      errors.add(error == nil ? "ok" : "refused")
    }
  }
}
