import CanopyTree
import HTTPTypes
import Testing

@testable import CanopyGateway

/// Parts of the gateway that need no connection.
@Suite struct PartTests {
  @Test func `a target is split before it is decoded`() throws {
    let target = try Target("/a%2Fb//c+d/%C3%A9.json?x=1+2%2b&empty&x=%22&=y#fragment")
    #expect(target.parts == ["a/b", "c+d", "é.json"])
    #expect(target["x"] == "\"" && target["empty"]?.isEmpty == true && target["y"] == nil)
    #expect(target.parameters.map(\.value) == ["1 2+", "", "\"", "y"])
    #expect(try Target("http://h:1/a.json?b=c").parts == ["a.json"])
    #expect(try Target("http://h").parts.isEmpty && Target("").parts.isEmpty)
    for text in ["/%", "/%4", "/%zz", "/%ff", "/%c3", "/a?%e9=1"] {
      #expect(throws: TreeError.self) { try Target(text) }
    }
  }

  @Test func `a resource is a location, the rules, or nothing`() throws {
    #expect(try Target("/.json").resource() == .tree(Location(.root)))
    #expect(try Target("/a/b.json").resource() == .tree(Location("a/b")))
    #expect(try Target("/a/.priority.json").resource() == .tree(Location("a/.priority")))
    #expect(try Target("/.settings/rules.json").resource() == .rules)
    #expect(try Target("/.settings/rules").resource() == nil)
    #expect(try Target("/a").resource() == nil)
    #expect(throws: TreeError.self) { try Target("/.settings/x.json").resource() }
    let deepest = String(repeating: "/a", count: Limits.depthMax)
    #expect(try Target(deepest + ".json").resource() != nil)
    #expect(throws: TreeError.self) { try Target("/a" + deepest + ".json").resource() }
  }

  @Test func `a target with thousands of parts or parameters is not split into all of them`()
    throws
  {
    let deep = String(repeating: "/a", count: 8_000)
    for last in ["b.json", "b", ".priority.json"] {
      let target = try Target("\(deep)//\(last)//?x=1")
      #expect(target.parts.count == Target.partsMax && target.parts.last == last)
      #expect(target["x"] == "1")
    }
    #expect(throws: TreeError.self) { try Target(deep + "/b.json").resource() }
    #expect(try Target(deep).resource() == nil)
    #expect(try Target("/identitytoolkit.googleapis.com" + deep).resource() == .identity)
    for count in 1...Target.partsMax {
      let parts = (0..<count).map { "p\($0)" }
      #expect(try Target("/" + parts.joined(separator: "/")).parts == parts)
    }
    let most = (0..<Target.parametersMax).map { "&p\($0)=\($0)&" }.joined()
    #expect(try Target("/a.json?" + most)["p63"] == "63")
    #expect(throws: TreeError.self) { try Target("/a.json?" + most + "&b") }
  }

  @Test func `a field with thousands of parts is read up to a bound`() {
    let parts = String(repeating: "a,", count: String.fieldPartsMax - 1)
    #expect(Responder.acceptsGzip([.acceptEncoding: parts + "gzip;q=1"]))
    #expect(!Responder.acceptsGzip([.acceptEncoding: parts + "a,gzip"]))
    #expect((parts + parts).parts(separatedBy: UInt8(ascii: ",")).count == String.fieldPartsMax)
  }

  @Test func `pretty JSON is the same value, whatever the pieces are`() throws {
    for (compact, expected) in [
      ("null", "null"), ("{}", "{ }"), ("[]", "[ ]"), (#""a{,:}\"b""#, #""a{,:}\"b""#),
      (#"{"a":1}"#, "{\n  \"a\" : 1\n}"), ("[1,[2],{}]", "[ 1, [ 2 ], { } ]"),
      (
        #"{"a":{"b":[{"c":"\\"}]},"d":""}"#,
        "{\n  \"a\" : {\n    \"b\" : [ {\n      \"c\" : \"\\\\\"\n    } ]\n  },\n  \"d\" : \"\"\n}"
      ),
    ] {
      for size in [1, 2, 3, 100] {
        var pretty = PrettyJSON()
        var output = JSONOutput()
        let bytes = Array(compact.utf8)
        for start in stride(from: 0, to: bytes.count, by: size) {
          bytes[start..<min(start + size, bytes.count)].withUnsafeBytes {
            pretty.append($0, to: &output)
          }
        }
        #expect(output.text == expected)
        #expect(try JSONValue(json: output.text) == JSONValue(json: compact))
      }
    }
  }
}
