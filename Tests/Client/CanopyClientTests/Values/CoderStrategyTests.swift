import CanopyTree
import Foundation
import Testing

@testable import CanopyClient

/// The strategies of `Database.Encoder` and `Database.Decoder`.
struct CoderStrategyTests {
  private struct Event: Codable, Equatable {
    var startTime: Date
  }

  private struct Blob: Codable, Equatable {
    var rawBytes: Data
  }

  private struct Reading: Codable, Equatable {
    var highValue: Double
    var lowValue: Float
  }

  private struct Person: Codable, Equatable {
    var firstName: String
    var homeURLPath: String
    var scores: [String: Level]
    var oldPeople: [Person]?

    struct Level: Codable, Equatable {
      var topScore: Int
    }
  }

  /// Returns what an encoder makes of a value, as JSON.
  private func text(_ value: some Encodable, _ change: (Database.Encoder) -> Void) throws -> String
  {
    let encoder = Database.Encoder()
    change(encoder)
    return try AnyValue.write(encoder.encode(value)).node.json(.export)
  }

  private func decoder(_ change: (Database.Decoder) -> Void) -> Database.Decoder {
    let decoder = Database.Decoder()
    change(decoder)
    return decoder
  }

  // MARK: Dates

  @Test func `a date is seconds since 2001, unless a strategy says otherwise`() throws {
    let event = Event(startTime: Date(timeIntervalSince1970: 1_500_000_000.5))
    func formatter() -> DateFormatter {
      let formatter = DateFormatter()
      formatter.locale = Locale(identifier: "en_US_POSIX")
      formatter.timeZone = TimeZone(secondsFromGMT: 0)
      formatter.dateFormat = "yyyy/MM/dd"
      return formatter
    }
    #expect(try text(event) { _ in } == #"{"startTime":521692800.5}"#)
    #expect(
      try text(event) { $0.dateEncodingStrategy = .deferredToDate }
        == #"{"startTime":521692800.5}"#)
    #expect(
      try text(event) { $0.dateEncodingStrategy = .secondsSince1970 }
        == #"{"startTime":1500000000.5}"#)
    #expect(
      try text(event) { $0.dateEncodingStrategy = .millisecondsSince1970 }
        == #"{"startTime":1500000000500}"#)
    #expect(
      try text(event) { $0.dateEncodingStrategy = .iso8601 }
        == #"{"startTime":"2017-07-14T02:40:00Z"}"#)
    #expect(
      try text(event) { $0.dateEncodingStrategy = .formatted(formatter()) }
        == #"{"startTime":"2017/07/14"}"#)
    let custom = try text(event) {
      $0.dateEncodingStrategy = .custom { date, encoder in
        #expect(encoder.codingPath.map(\.stringValue) == ["startTime"])
        try ["day": "\(Int(date.timeIntervalSince1970) / 86_400)"].encode(to: encoder)
      }
    }
    #expect(custom == #"{"startTime":{"day":"17361"}}"#)
    #expect(
      try text([event.startTime]) { $0.dateEncodingStrategy = .custom { _, _ in } } == "null")
  }

  @Test func `a date is decoded from the same forms`() throws {
    let exact = Event(startTime: Date(timeIntervalSince1970: 1_500_000_000.5))
    let whole = Event(startTime: Date(timeIntervalSince1970: 1_500_000_000))
    func decode(_ value: Any, _ change: (Database.Decoder) -> Void) throws -> Event {
      try decoder(change).decode(Event.self, from: ["startTime": value])
    }
    #expect(try decode(521_692_800.5) { _ in } == exact)
    #expect(try decode(1_500_000_000.5) { $0.dateDecodingStrategy = .secondsSince1970 } == exact)
    #expect(
      try decode(1_500_000_000_500) { $0.dateDecodingStrategy = .millisecondsSince1970 } == exact)
    for zone in ["2017-07-14T02:40:00Z", "2017-07-14T04:40:00+02:00"] {
      #expect(try decode(zone) { $0.dateDecodingStrategy = .iso8601 } == whole)
    }
    let formatter = DateFormatter()
    formatter.locale = Locale(identifier: "en_US_POSIX")
    formatter.timeZone = TimeZone(secondsFromGMT: 0)
    formatter.dateFormat = "yyyy/MM/dd HH:mm"
    #expect(
      try decode("2017/07/14 02:40") { $0.dateDecodingStrategy = .formatted(formatter) } == whole)
    let custom = try decode("x") {
      $0.dateDecodingStrategy = .custom { decoder in
        #expect(decoder.codingPath.map(\.stringValue) == ["startTime"])
        let text = try decoder.singleValueContainer().decode(String.self)
        #expect(text == "x")
        return whole.startTime
      }
    }
    #expect(custom == whole)
    #expect(throws: DecodingError.self) {
      try decode("yesterday") { $0.dateDecodingStrategy = .iso8601 }
    }
    #expect(throws: DecodingError.self) {
      try decode("yesterday") { $0.dateDecodingStrategy = .formatted(formatter) }
    }
    #expect(throws: DecodingError.self) {
      try decode("yesterday") { $0.dateDecodingStrategy = .secondsSince1970 }
    }
  }

  // MARK: Data

  @Test func `data are text in Base64, unless a strategy says otherwise`() throws {
    let blob = Blob(rawBytes: Data([1, 2, 255]))
    #expect(try text(blob) { _ in } == #"{"rawBytes":"AQL/"}"#)
    let bytes = try text(blob) { $0.dataEncodingStrategy = .deferredToData }
    #expect(bytes == #"{"rawBytes":{"0":1,"1":2,"2":255}}"#)
    let custom = try text(blob) {
      $0.dataEncodingStrategy = .custom { data, encoder in
        var container = encoder.singleValueContainer()
        try container.encode(data.count)
      }
    }
    #expect(custom == #"{"rawBytes":3}"#)
    let encoder = Database.Encoder()
    encoder.dataEncodingStrategy = .blob
    let value = try #require(try encoder.encode(blob) as? [String: Any])
    #expect(value["rawBytes"] as? Data == blob.rawBytes)
    // The database holds no such value.
    #expect(throws: DatabaseError.self) { try AnyValue.write(value) }
  }

  @Test func `data are decoded from the same forms`() throws {
    let blob = Blob(rawBytes: Data([1, 2, 255]))
    func decode(_ value: Any, _ change: (Database.Decoder) -> Void) throws -> Blob {
      try decoder(change).decode(Blob.self, from: ["rawBytes": value])
    }
    #expect(try decode("AQL/") { _ in } == blob)
    #expect(try decode([1, 2, 255]) { $0.dataDecodingStrategy = .deferredToData } == blob)
    #expect(
      try decode(3) { $0.dataDecodingStrategy = .custom { _ in blob.rawBytes } } == blob)
    for strategy in [Database.Decoder.DataDecodingStrategy.base64, .deferredToData, .blob] {
      #expect(throws: DecodingError.self) {
        try decode("not Base64!") { $0.dataDecodingStrategy = strategy }
      }
    }
  }

  // MARK: Numbers

  @Test func `numbers that are not finite are refused, or text`() throws {
    let readings = [
      Reading(highValue: .infinity, lowValue: -.infinity), Reading(highValue: 1.5, lowValue: .nan),
    ]
    for reading in readings {
      #expect(throws: EncodingError.self) { try text(reading) { _ in } }
    }
    let texts = ("high", "low", "none")
    let encoded = try text(readings) {
      $0.nonConformingFloatEncodingStrategy = .convertToString(
        positiveInfinity: texts.0, negativeInfinity: texts.1, nan: texts.2)
    }
    #expect(
      encoded
        == #"{"0":{"highValue":"high","lowValue":"low"},"1":{"highValue":1.5,"lowValue":"none"}}"#)
    let own = decoder {
      $0.nonConformingFloatDecodingStrategy = .convertFromString(
        positiveInfinity: texts.0, negativeInfinity: texts.1, nan: texts.2)
    }
    let values = try own.decode(
      [Reading].self,
      from: [["highValue": "high", "lowValue": "low"], ["highValue": 1.5, "lowValue": "none"]])
    #expect(values[0] == readings[0] && values[1].highValue == 1.5 && values[1].lowValue.isNaN)
    #expect(throws: DecodingError.self) { try own.decode([Double].self, from: ["other"]) }
    #expect(throws: DecodingError.self) {
      try Database.Decoder().decode([Double].self, from: ["high"])
    }
    let error = #expect(throws: EncodingError.self) {
      try Database.Encoder().encode(["a": [1, Double.nan]])
    }
    guard case .invalidValue(_, let context)? = error else { return }
    #expect(context.codingPath.map(\.stringValue) == ["a", "Index 1"])
  }

  // MARK: Keys

  private static let snakes = [
    ("oneTwoThree", "one_two_three"), ("_oneTwoThree_", "_one_two_three_"), ("single", "single"),
    ("homeURLPath", "home_url_path"), ("myURL", "my_url"), ("partCAPS", "part_caps"),
    ("partCAPSLowerAGAIN", "part_caps_lower_again"), ("version4Thing", "version4_thing"),
    ("dataPoint22Word", "data_point22_word"), ("aA", "a_a"), ("a", "a"), ("", ""), ("_", "_"),
    ("already_snake_case", "already_snake_case"), ("asdfĆqer", "asdf_ćqer"), ("URL", "u_rl"),
  ]

  @Test(arguments: snakes) func `names become snake case`(_ name: String, _ snake: String) {
    #expect(name.snakeCased == snake)
  }

  @Test(arguments: [
    ("one_two_three", "oneTwoThree"), ("_one_two_three_", "_oneTwoThree_"), ("single", "single"),
    ("__x_y__", "__xY__"), ("alreadyCamel", "alreadyCamel"), ("_Test", "_Test"), ("", ""),
    ("___", "___"), ("UPPER_CASE", "upperCase"), ("a__b", "aB"), ("one_2_three", "one2Three"),
  ])
  func `names become camel case`(_ name: String, _ camel: String) {
    #expect(name.camelCased == camel)
  }

  private let person = Person(
    firstName: "Ada", homeURLPath: "/ada", scores: ["myGame": .init(topScore: 3)],
    oldPeople: [Person(firstName: "Eve", homeURLPath: "/eve", scores: [:], oldPeople: nil)])

  @Test func `keys of types become snake case and back, and those of dictionaries stay`() throws {
    let encoder = Database.Encoder()
    encoder.keyEncodingStrategy = .convertToSnakeCase
    let value = try encoder.encode(person)
    let node = try AnyValue.write(value).node
    #expect(node.child("first_name") == "Ada" && node.child("home_url_path") == "/ada")
    #expect(node.child("scores").json(.export) == #"{"myGame":{"top_score":3}}"#)
    #expect(node.child("old_people").child("0").child("first_name") == "Eve")
    let own = decoder { $0.keyDecodingStrategy = .convertFromSnakeCase }
    let people = try own.decode(
      [String: [String: Person.Level]].self, from: ["my_team": ["my_game": ["top_score": 1]]])
    #expect(people == ["my_team": ["my_game": .init(topScore: 1)]])
    struct Name: Decodable { var firstName: String }
    #expect(try own.decode(Name.self, from: value).firstName == "Ada")
    #expect(throws: DecodingError.self) { try Database.Decoder().decode(Name.self, from: value) }
    #expect(throws: DecodingError.self) { try own.decode([String: Int].self, from: "text") }
  }

  private struct Key: CodingKey {
    var stringValue: String
    var intValue: Int? { nil }
    init(_ text: String) { stringValue = text }
    init?(stringValue: String) { self.stringValue = stringValue }
    init?(intValue: Int) { nil }
  }

  @Test func `a function chooses the keys by their paths`() throws {
    let encoder = Database.Encoder()
    encoder.keyEncodingStrategy = .custom { path in
      Key(path.map(\.stringValue).joined(separator: "-").lowercased())
    }
    let node = try AnyValue.write(encoder.encode(person)).node
    #expect(node.child("firstname") == "Ada")
    #expect(
      node.child("scores").json(.export) == #"{"myGame":{"scores-mygame-topscore":3}}"#)
    #expect(node.child("oldpeople").child("0").child("oldpeople-index 0-firstname") == "Eve")
    let own = decoder { decoder in
      decoder.keyDecodingStrategy = .custom { path in
        Key(path.last?.stringValue.replacing("x-", with: "") ?? "")
      }
    }
    struct Name: Codable, Equatable { var name: String }
    #expect(try own.decode([Name].self, from: [["x-name": "a"]]) == [Name(name: "a")])
    // If two children have the same name, one of them is used.
    #expect(
      ["a", "b"].contains(try own.decode(Name.self, from: ["x-name": "a", "name": "b"]).name))
  }

  // MARK: The rest

  private struct Reader: Codable {
    static let name = CodingUserInfoKey(rawValue: "name")
    var text: String

    init() { text = "" }

    init(from decoder: any Decoder) throws {
      text = Self.name.flatMap { decoder.userInfo[$0] as? String } ?? "none"
    }

    func encode(to encoder: any Encoder) throws {
      var container = encoder.singleValueContainer()
      try container.encode(Self.name.flatMap { encoder.userInfo[$0] as? String } ?? "none")
    }
  }

  @Test func `the values of userInfo reach nested types`() throws {
    let name = try #require(Reader.name)
    let encoder = Database.Encoder()
    #expect(try encoder.encode(Reader()) as? String == "none")
    encoder.userInfo[name] = "Ada"
    #expect(try encoder.encode(["a": [Reader()]]) as? [String: [String]] == ["a": ["Ada"]])
    let decoder = decoder { $0.userInfo[name] = "Eve" }
    #expect(try decoder.decode([String: Reader].self, from: ["a": 1])["a"]?.text == "Eve")
    #expect(try Database.Decoder().decode(Reader.self, from: 1).text == "none")
  }

  private struct Silent: Encodable {
    func encode(to encoder: any Encoder) {}
  }

  private struct Optionals: Encodable {
    var missing: Int?
    var explicit: Int?

    enum CodingKeys: CodingKey { case missing, explicit }

    func encode(to encoder: any Encoder) throws {
      var container = encoder.container(keyedBy: CodingKeys.self)
      try container.encodeIfPresent(missing, forKey: .missing)
      try container.encode(explicit, forKey: .explicit)
    }
  }

  @Test func `a value that encodes nothing is an error, and an explicit nil is NSNull`() throws {
    #expect(throws: EncodingError.self) { try Database.Encoder().encode(Silent()) }
    #expect(try Database.Encoder().encode([Silent()]) as? [[String: Int]] == [[:]])
    let value = try #require(try Database.Encoder().encode(Optionals()) as? [String: Any])
    #expect(value.count == 1 && value["explicit"] is NSNull)
    #expect(try Database.Encoder().encode(Int?.none) is NSNull)
  }

  @Test func `the strategies hold for references and snapshots`() async throws {
    try await withBackend { backend in
      let place = try await backend.client().reference(withPath: "t")
      let event = Event(startTime: Date(timeIntervalSince1970: 1_500_000_000))
      let encoder = Database.Encoder()
      encoder.dateEncodingStrategy = .millisecondsSince1970
      encoder.keyEncodingStrategy = .convertToSnakeCase
      try place.setValue(from: event, encoder: encoder)
      let snapshot = try await place.getData()
      #expect(try backend.node("t").json(.export) == #"{"start_time":1500000000000}"#)
      let decoder = Database.Decoder()
      decoder.dateDecodingStrategy = .millisecondsSince1970
      decoder.keyDecodingStrategy = .convertFromSnakeCase
      #expect(try snapshot.data(as: Event.self, decoder: decoder) == event)
    }
  }
}
