import CanopySession
import CanopyTree
import Testing

struct ReplyJSONTests {
  private func text(_ json: ReplyJSON) -> String {
    var output = JSONOutput()
    json.append(to: &output)
    return output.text
  }

  @Test func `each kind of value has its JSON`() {
    let values: [(ReplyJSON, String)] = [
      (.null, "null"), (.bool(true), "true"), (.bool(false), "false"),
      (.number(.min), "\(Int64.min)"),
      (.text("a \"b\"\n"), #""a \"b\"\n""#), (.key("k"), #""k""#), (.array([]), "[]"),
      (.array([.number(1), .array([.null])]), "[1,[null]]"), (.object([]), "{}"),
    ]
    for (value, expected) in values { #expect(text(value) == expected) }
  }

  @Test func `an object keeps the order of its members, and escapes their names`() {
    let json: ReplyJSON = ["b": .number(1), "a\"": ["c": .text("d")], "é": .null]
    #expect(text(json) == #"{"b":1,"a\"":{"c":"d"},"é":null}"#)
  }
}
