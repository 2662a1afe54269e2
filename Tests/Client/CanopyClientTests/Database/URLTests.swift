import CanopyClient
import CanopyTesting
import CanopyTree
import Testing

/// URLs of locations.
@Suite(.timeLimit(.minutes(20))) struct URLTests {
  /// The characters that keys may have and URLs treat specially, and others of one to four bytes.
  private static let characters: [Character] = [
    "%", "+", " ", "?", "&", "=", "@", ":", ";", ",", "\"", "'", "<", ">", "\\", "^", "`", "{", "|",
    "}", "~", "!", "*", "(", ")", "-", "_", "a", "Z", "0", "2", "5", "F", "é", "e\u{301}", "ß", "中",
    "👩‍👩‍👧", "🎉", "\u{7F}", "\u{A0}", "\u{200B}", "\u{FEFF}",
  ]

  @Test func `the URL of every legal key leads back to it`() throws {
    let database = try Database(url: "canopy://[::1]:7999")
    var random = SeededGenerator(printingSeedFor: "URLs of keys")
    for count in 0..<500 {
      let path = (0...count % 4).compactMap { _ -> String? in
        let key = String((0...count % 9).map { _ in random.pick(Self.characters) })
        return (try? Key(key)).map { _ in key }
      }
      let place = database.reference(withPath: path.joined(separator: "/"))
      let isPlain = place.url.utf8.allSatisfy {
        (0x21...0x7E).contains($0) && !"\"<>\\^`{|}?".utf8.contains($0)
      }
      #expect(isPlain, "\(place.url)")
      let again = database.reference(fromURL: place.url)
      #expect(again == place, "\(place.url)")
      #expect(Array((again.key ?? "").utf8) == Array((path.last ?? "").utf8))
    }
  }

  @Test func `a URL is percent-encoded by the bytes of its keys`() throws {
    let database = try Database(url: "canopy://h")
    let place = database.reference(withPath: "a b/é%+?/c")
    #expect(place.url == "canopy://h:7070/a%20b/%C3%A9%25%2B%3F/c")
    #expect("\(place)" == place.url)
    #expect(database.reference(fromURL: "canopy://h/a+b/x%41").url == "canopy://h:7070/a%20b/xA")
    #expect(database.reference().url == "canopy://h:7070/")
    #expect(
      database.reference(withPath: ".info/connected").url == "canopy://h:7070/.info/connected")
  }

  @Test func `a URL with an invalid encoding is refused`() async throws {
    let database = try Database(url: "canopy://127.0.0.1:1")
    database.callbackQueue = .init(label: "callbacks")
    for path in ["%", "%4", "%zz", "%ff", "a/%C3"] {
      let error = await #expect(throws: DatabaseError.self, "\(path)") {
        try await database.reference(fromURL: "canopy://127.0.0.1:1/\(path)").getData()
      }
      #expect(error?.code == .invalidURL)
    }
  }
}
