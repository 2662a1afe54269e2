import CanopyTree
import Foundation
import Testing

@testable import CanopyClient

/// Encoding and decoding an application's types.
struct CodableTests {
  private enum Mood: String, Codable {
    case bright, grey
  }

  private struct Entry: Codable, Equatable {
    var title: String
    var mood: Mood
    var count: Int
    var big: UInt64
    var ratio: Double
    var isOpen: Bool
    var note: String?
    var tags: [String]
    var stars: [String: Bool]
    var nested: [[Int]]
    var at: Date
    var link: URL?
  }

  private let entry = Entry(
    title: "Regen", mood: .grey, count: -3, big: 1 << 53, ratio: 2, isOpen: true, note: nil,
    tags: ["a", "b"], stars: ["u": true], nested: [[1], [2, 3]],
    at: Date(timeIntervalSinceReferenceDate: 12.5), link: URL(string: "https://example.org/a"))

  @Test func `a value survives a round trip`() throws {
    let node = try AnyValue.write(ValueEncoder.encode(entry)).node
    #expect(node.child("mood") == "grey" && node.child("note").isAbsent)
    #expect(node.child("at") == Node(12.5) && node.child("nested").child("1").child("0") == 2)
    #expect(try NodeDecoder.decode(Entry.self, from: node) == entry)
  }

  @Test func `an empty collection is stored as absent and decoded as empty`() throws {
    var empty = entry
    empty.tags = []
    empty.stars = [:]
    empty.nested = []
    empty.link = nil
    let node = try AnyValue.write(ValueEncoder.encode(empty)).node
    #expect(try NodeDecoder.decode(Entry.self, from: node) == empty)
  }

  @Test func `single values and collections can be encoded too`() throws {
    #expect(try AnyValue.write(ValueEncoder.encode([1, 2])).node == json("[1,2]"))
    #expect(try AnyValue.write(ValueEncoder.encode("x")).node == "x")
    #expect(try AnyValue.write(ValueEncoder.encode(Int?.none)).node.isAbsent)
    #expect(try NodeDecoder.decode([String].self, from: json(#"["a","b"]"#)) == ["a", "b"])
    #expect(try NodeDecoder.decode(Double.self, from: 3) == 3)
    #expect(try NodeDecoder.decode([Int: String].self, from: json(#"{"1":"a","9":"b"}"#))[9] == "b")
    #expect(try NodeDecoder.decode(Int?.self, from: .absent) == nil)
  }

  @Test func `a mismatch is an error that names the path`() throws {
    let node = json(#"{"title":"x","count":1.5,"big":-1,"tags":{"a":1}}"#)
    #expect(throws: DecodingError.self) { try NodeDecoder.decode(Entry.self, from: node) }
    #expect(throws: DecodingError.self) { try NodeDecoder.decode(Int.self, from: "x") }
    #expect(throws: DecodingError.self) { try NodeDecoder.decode(Int8.self, from: 300) }
    #expect(throws: DecodingError.self) { try NodeDecoder.decode([Int].self, from: 1) }
    #expect(throws: DecodingError.self) { try NodeDecoder.decode(String.self, from: .absent) }
    #expect(throws: (any Error).self) {
      try AnyValue.write(ValueEncoder.encode(["a": Double.nan]))
    }
  }
}
