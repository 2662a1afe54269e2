import Testing

@testable import CanopyTree

struct JSONValueTests {
  @Test func `null, arrays and empty containers are kept as written`() throws {
    let value = try JSONValue(json: #"{"b":[1,null,[],{}],"a":"x",".value":true}"#)
    #expect(
      value
        == .object([
          (name: "b", value: .array([.leaf(1), .null, .array([]), .object([])])),
          (name: "a", value: .leaf("x")), (name: ".value", value: .leaf(true)),
        ]))
    #expect(value["a"]?.string == "x")
    #expect(value["b"]?.elements?.count == 4)
    #expect(value["c"] == nil && value["b"]?["a"] == nil && value["a"]?.elements == nil)
  }

  @Test func `the last of duplicate names wins`() throws {
    #expect(try JSONValue(json: #"{"a":1,"a":2}"#)["a"] == .leaf(2))
  }

  @Test func `names are compared by their bytes`() throws {
    let value = try JSONValue(json: #"{"\u00e9":1,"e\u0301":2}"#)
    #expect(value["\u{E9}"] == .leaf(1))
    #expect(value["e\u{301}"] == .leaf(2))
    #expect(try JSONValue(json: #"{"\u00e9":1}"#) != JSONValue(json: #"{"e\u0301":1}"#))
  }

  @Test func `malformed JSON is refused here too`() {
    let both = [
      "", "[1,]", "{\"a\" 1}", "{a:1}", "01", "\"\\ud800\"", "[1", "{", "nul", "1 2", "1e999",
    ]
    for text in both {
      #expect(throws: TreeError.self, "\(text)") { try JSONValue(json: text) }
      do throws(TreeError) {
        _ = try JSONValue(json: text)
      } catch {
        #expect(Reading(text) == .failure(error) || text.contains(where: "[{".contains))
      }
    }
  }

  @Test func `names may contain characters that keys may not`() throws {
    #expect(try JSONValue(json: #"{"a/b":1,"":2,"$x":3}"#)["a/b"] == .leaf(1))
  }
}
