import Testing

@testable import CanopyTree

/// Texts that are not JSON, or not a tree, with the offset of the error.
struct JSONRejectTests {
  @Test(arguments: [
    ("", 0), ("   ", 3), ("nul", 3), ("nulL", 3), ("True", 0), ("tru", 3), ("NaN", 0), ("-", 1),
    ("Infinity", 0), ("-Infinity", 1), ("+1", 0), ("01", 1), ("-01", 2), ("00", 1), ("1.", 2),
    ("1.e5", 2), (".5", 0), ("1e", 2), ("1e+", 3), ("1e-", 3), ("0x10", 1), ("1a", 1), ("1 2", 2),
    ("-a", 1), ("1.5.5", 3), ("1,", 1), ("1e5.5", 3), ("'a'", 0), ("\u{FEFF}1", 0), ("\u{0}", 0),
    ("1\u{0}", 1), ("// a\n1", 0), ("1 /* a */", 2), ("\u{A0}1", 0), ("1\u{B}", 1), ("1e99999", 0),
    (" -1e309", 1), ("nullx", 4), ("truefalse", 4),
  ])
  func `text without a value`(text: String, offset: Int) {
    #expect(Reading(text).offset == offset, "\(text): \(Reading(text))")
  }

  @Test(arguments: [
    ("[", 1), ("]", 0), ("[1", 2), ("[1,", 3), ("[1,]", 3), ("[,1]", 1), ("[1,,2]", 3),
    ("[1 2]", 3),
    ("[1}", 2), ("[]]", 2), ("[[]", 3), ("[1:2]", 2), ("[,]", 1), ("[\"a\"", 4),
    ("{", 1), ("}", 0), ("{\"a\"", 4), ("{\"a\":", 5), ("{\"a\":1", 6), ("{\"a\":1,", 7),
    ("{\"a\":1,}", 7), ("{,}", 1), ("{\"a\"}", 4), ("{\"a\" 1}", 5), ("{\"a\":}", 5), ("{a:1}", 1),
    ("{1:1}", 1), ("{\"a\":1 \"b\":2}", 7), ("{\"a\":1]", 6), ("{}}", 2), ("{\"a\",1}", 4),
    ("{\"a\"::1}", 5), ("{'a':1}", 1), ("{null:1}", 1), ("{\"a\":1;\"b\":2}", 6), ("{[]:1}", 1),
  ])
  func `invalid arrays and objects`(text: String, offset: Int) {
    #expect(Reading(text).offset == offset, "\(text): \(Reading(text))")
  }

  @Test(arguments: [
    ("\"", 1), ("\"a", 2), ("\"a\u{1F}\"", 2), ("\"\u{0}\"", 1), ("\"\n\"", 1), ("\"\t\"", 1),
    ("\"12345678\u{1}\"", 9), ("\"1234567\u{1}8\"", 8), (#""\"#, 2), (#""\a""#, 2), (#""\x41""#, 2),
    (#""\U0041""#, 2), (#""\u""#, 3), (#""\u004""#, 6), (#""\u004g""#, 6), (#""\u 041""#, 3),
    (#""\u+041""#, 3), (#""\'""#, 2), (#""\0""#, 2), ("\"\\\u{FF11}\"", 2),
    ("\"\\u\u{FF11}111\"", 3),
  ])
  func `invalid strings`(text: String, offset: Int) {
    #expect(Reading(text).offset == offset, "\(text.debugDescription): \(Reading(text))")
  }

  /// The offset is that of the four digits of the first half.
  @Test(arguments: [
    (#""\ud800""#, 3), (#""\udc00""#, 3), (#""\udfff""#, 3), (#""\udbff""#, 3), (#""\ud800x""#, 3),
    (#""\ud800\n""#, 3), (#""\ud800\ud800""#, 3), (#""\ud800\u0041""#, 3), (#""a\udc00\ud800""#, 4),
    (#""\ud83c\udf33\ud83c""#, 15), (#""\ud83c\udf33\udf33""#, 15), (#""\ud800\ue000""#, 3),
  ])
  func `lone surrogates are refused`(text: String, offset: Int) {
    #expect(Reading(text).offset == offset, "\(text): \(Reading(text))")
    let key = "{" + text + ":1}"
    #expect(Reading(key).offset == offset + 1)
  }

  @Test(arguments: [
    #"{"":1}"#, #"{"a.b":1}"#, #"{"a/b":1}"#, #"{"$a":1}"#, #"{"a#":1}"#, #"{"[":1}"#, #"{"]":1}"#,
    #"{"a\u0000":1}"#, #"{"\u007f":1}"#, #"{"\n":1}"#, #"{".vaLue":1}"#, #"{".":1}"#,
    "{\"" + String(repeating: "é", count: 385) + "\":1}",
  ])
  func `invalid keys`(text: String) {
    #expect(Reading(text).offset == 1, "\(text): \(Reading(text))")
  }

  @Test func `a number has at most 1,024 characters`() {
    let digits = String(repeating: "1", count: 300)
    #expect(Reading("0." + String(repeating: "1", count: 1022)).node != nil)
    #expect(Reading("0." + String(repeating: "1", count: 1023)).offset != nil)
    #expect(Reading(digits).node?.doubleValue == Double(digits))
    #expect(Reading("1" + String(repeating: "0", count: 400)).offset == 0)
  }

  @Test func `a string has at most the bytes that the limits allow`() {
    var limits = Limits()
    limits.stringBytesMax = 10
    for (text, isLegal) in [
      ("1234567890", true), ("12345678901", false), ("ééééé", true), ("éééééé", false),
      (#"123456789\n"#, true), (#"1234567890\n"#, false), (#"\ud83c\udf33123456"#, true),
      (#"\ud83c\udf331234567"#, false),
    ] {
      for text in ["\"\(text)\"", "{\"\(text)\":1}"] {
        let bytes = Array(text.utf8)
        let expected = TreeError.tooLarge("a string may have at most 10 bytes of UTF-8")
        let reading = Reading(bytes, limits: limits)
        // An escaped line feed is invalid in a key, but its length must be accepted.
        #expect((reading == .failure(expected)) == !isLegal, "\(text)")
        #expect(Reading(bytes, pieces: 1, limits: limits) == reading)
      }
    }
  }
}
