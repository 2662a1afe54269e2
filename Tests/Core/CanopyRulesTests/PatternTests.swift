import CanopyTree
import Testing

@testable import CanopyRules

struct PatternTests {
  private func compile(_ text: String, ignoresCase: Bool = false) throws -> Pattern {
    try PatternTable.compile(text, ignoresCase: ignoresCase)
  }

  @Test(arguments: [
    ("a", ["a", "ba", "abc"], ["", "b", "A"]),
    ("^a", ["a", "ab"], ["ba", ""]),
    ("a$", ["a", "ba"], ["ab", ""]),
    ("^$", [""], ["a"]),
    ("^a*$", ["", "a", "aaa"], ["b", "ab"]),
    ("^a+$", ["a", "aaa"], ["", "b"]),
    ("^a?$", ["", "a"], ["aa"]),
    ("^(ab)*$", ["", "ab", "abab"], ["a", "aba"]),
    ("^(a|bc)$", ["a", "bc"], ["ac", "b", ""]),
    ("a|bc", ["xax", "bc"], ["b", "c", ""]),
    ("^(a|b)?c$", ["ac", "bc", "c"], ["abc"]),
    ("^.$", ["a", "é", "🌳", "\n"], ["", "ab"]),
    ("^[a-c]+$", ["abc"], ["abcd", ""]),
    ("^[^a-c]+$", ["xyz", "é"], ["xaz", ""]),
    ("^[]a]$", [], []),
    ("^[-a]$", ["-", "a"], ["b"]),
    ("^[a-]$", ["-", "a"], ["b"]),
    ("^[\\w-]+$", ["a-b_9"], ["a b"]),
    ("^[^\\d\\s]+$", ["ab"], ["a1", "a b"]),
    ("^[\\D]+$", ["ab"], ["a1"]),
    ("^\\d{4}-\\d{2}$", ["2026-02"], ["2026-2", "12026-02"]),
    ("^a{2}$", ["aa"], ["a", "aaa"]),
    ("^a{2,}$", ["aa", "aaaa"], ["a"]),
    ("^a{1,3}$", ["a", "aaa"], ["", "aaaa"]),
    ("^a{0}$", [""], ["a"]),
    ("^(a{0,2}b){2}$", ["bb", "aabab"], ["b", "aaabb"]),
    ("^\\w+@\\w+\\.\\w{2,4}$", ["a@b.cd"], ["a@b", "a@b.c"]),
    ("\\{foo}", ["{foo}"], ["foo"]),
    ("^\\/\\\\\\.\\$\\^$", ["/\\.$^"], ["/\\x$^"]),
    ("\\s", [" ", "a\tb", "\u{A0}", "\u{3000}"], ["a", "\u{200B}"]),
    ("\\S", ["a", " a "], ["", " \n\u{2003}"]),
    ("^[а-я]+$", ["привет"], ["hello"]),
    ("^(a*)*$", ["", "aaa"], ["b"]),
    ("^(a|a)*$", ["aaa"], ["b"]),
    ("^((a)?)+$", ["", "aa"], ["b"]),
    ("^[z-|a-cb-fm-]+$", ["abcdefm-z{|"], ["g", "l", "n", "y"]),
    ("^[\\D5\\d]+$", ["a5 é"], [""]),
    ("^[^\\D5]+$", ["0123"], ["5", "a"]),
    ("^[\u{1}-\u{10FFFE}\u{10FFFF}]$", ["a", "\u{10FFFF}"], [""]),
    (
      "^(19|20)[0-9][0-9][-\\/. ](0[1-9]|1[012])$", ["1999-12", "2001/07"], ["1899-12", "2001-13"]
    ),
  ])
  func `a regular expression matches the texts it describes`(
    _ text: String, _ matching: [String], _ others: [String]
  ) throws {
    guard !matching.isEmpty else {
      #expect(throws: TextProblem.self) { try compile(text) }
      return
    }
    let pattern = try compile(text)
    for text in matching { #expect(pattern.matches(text), "\(text)") }
    for text in others { #expect(!pattern.matches(text), "\(text)") }
  }

  @Test func `the flag i ignores case`() throws {
    #expect(try compile("^bar$", ignoresCase: true).matches("BaR"))
    #expect(try compile("^BÄR$", ignoresCase: true).matches("bär"))
    #expect(try compile("^[a-c]+$", ignoresCase: true).matches("ABC"))
    #expect(try !compile("^[^a-c]+$", ignoresCase: true).matches("A"))
    #expect(try !compile("^bar$").matches("BaR"))
  }

  @Test(arguments: [
    ("", 0, "expected a regular expression"), ("(a", 0, "expected )"), ("a)", 1, "before )"),
    ("[a", 0, "expected ]"), ("[]", 0, "expected a character"), ("[^]", 0, "expected a character"),
    ("*a", 0, "something before *"), ("(*a)", 1, "something before *"), ("a**", 2, "no second"),
    ("a*?", 2, "no second"), ("(?:a)", 1, "something before ?"), ("a{", 2, "expected a number"),
    ("a{2", 1, "expected {n}"), ("a{3,2}", 1, "the lower number first"), ("{2}", 0, "before {"),
    ("a{1001}", 2, "at most 1000"), ("a^", 1, "only at the beginning"), ("(^a)", 1, "only at"),
    ("a$b", 1, "only at the end"), ("(a$)", 2, "only at the end"),
    ("a\\", 2, "after the backslash"),
    ("\\b", 1, "expected d, w, s"), ("\\1", 1, "expected d, w, s"), ("[z-a]", 3, "the lower one"),
    ("[a-\\d]", 3, "whose ends are characters"), ("^a|b", 0, "in parentheses"),
    ("a|b$", 0, "in parentheses"), ("((a{999}){999}){999}", 0, "at most 5000 states"),
    ("^(foo|)$", 6, "on both sides of |"), ("(|a)", 1, "on both sides of |"),
    ("a||b", 2, "on both sides of |"), ("|", 0, "on both sides of |"),
    ("^|$", 1, "on both sides of |"), ("^^a", 1, "only at the beginning"),
    ("a$$", 1, "only at the end"),
  ])
  func `unsupported syntax is refused with its position`(
    _ text: String, _ offset: Int, _ message: String
  ) throws {
    do {
      _ = try compile(text)
      Issue.record("\(text) is accepted")
    } catch let problem as TextProblem {
      #expect(problem.offset == offset, "\(problem.message)")
      #expect(problem.message.contains(message))
    }
  }

  @Test func `empty repetitions take no time`() throws {
    #expect(try compile("^((((){1000}){1000}){1000}){1000}$").matches(""))
    #expect(try compile("^((((a{0}){1000}){1000}){1000}){1000}$").matches(""))
  }

  @Test(.timeLimit(.minutes(20)))
  func `no pattern is slow on any text`() throws {
    let text = String(repeating: "a", count: 20_000) + "!"
    #expect(try !compile("^(a+)+$").matches(text))
    #expect(try !compile("^(a|aa)+$").matches(text))
    #expect(try !compile("^(a*)*b$").matches(text))
    #expect(try compile("(a?){50}a{50}").matches(text))
  }

  @Test func `matching stops when its steps are used up`() throws {
    let pattern = try compile("a{1,40}b$")
    let text = String(repeating: "a", count: 100)
    var left = Int.max
    #expect(pattern.matches(text, stepsLeft: &left) == false)
    let needed = Int.max - left
    #expect(needed > 100 * 40)
    left = needed
    #expect(pattern.matches(text, stepsLeft: &left) == false)
    #expect(left == 0)
    left = needed - 1
    #expect(pattern.matches(text, stepsLeft: &left) == nil)
  }

  /// Returns a class of single characters, none adjacent to another.
  private func largeClass(_ count: Int) throws -> String {
    var text = "^["
    for i in 0..<count {
      text.unicodeScalars.append(try #require(Unicode.Scalar(0x4E00 + 2 * i)))
    }
    return text + "]+$"
  }

  @Test(.timeLimit(.minutes(20)))
  func `a class of very many ranges takes few more steps than a small one`() throws {
    func steps(_ count: Int) throws -> Int {
      let pattern = try compile(try largeClass(count))
      var left = Int.max
      let text = String(repeating: "\u{4E00}", count: 1_000)
      #expect(pattern.matches(text, stepsLeft: &left) == true)
      var others = Int.max
      #expect(pattern.matches("\u{4E01}", stepsLeft: &others) == false)
      return Int.max - left
    }
    #expect(try steps(10_000) <= 4 * steps(2))
  }

  @Test func `overlapping and adjacent ranges are merged`() {
    let set = ScalarSet(ranges: [5...9, 1...3, 4...4, 8...20, 30...31, 12...13])
    #expect(set.ranges == [1...20, 30...31])
    #expect(ScalarSet(ranges: [0...0x10FFFF, 5...6]).inverted.members.isEmpty)
    #expect(ScalarSet(ranges: [0...3, 0x10FFFF...0x10FFFF]).inverted.members == [4...0x10FFFE])
    #expect(ScalarSet.any.members == [0...0x10FFFF])
    for scalar in UInt32(0)...40 {
      guard let value = Unicode.Scalar(scalar) else { continue }
      let isIn = 1...20 ~= scalar || 30...31 ~= scalar
      let variants = ScalarVariants(value, ignoresCase: false)
      #expect(set.contains(variants) == isIn)
      #expect(set.inverted.contains(variants) != isIn)
    }
  }

  @Test
  func `a write is refused if its regular expressions take too long together`()
    throws
  {
    let rules = try rules(
      #"{"rules":{".write":true,"$k":{".validate":"newData.val().matches(/[a-x]{1,20}b$/)"}}}"#)
    func evaluate(places: Int, _ text: String) throws -> (Verdict, [FullTrace.Entry]) {
      var root = Node.absent
      for i in 0..<places { root.set(Node(text), at: try Path("k\(100 + i)")) }
      let evaluator = Evaluator(
        rules.frozenProgram, caller: nobody, query: nil, before: .absent, after: root,
        trace: FullTrace(), stepsMax: 10_000)
      var authorizer = WriteAuthorizer(tree: rules.tree, evaluator: evaluator)
      return (authorizer.authorize([Location(.root)]), evaluator.trace.entries)
    }
    // Each costs about 100 × 2 × 20 steps.
    let slow = String(repeating: "a", count: 100) + "b"
    #expect(try evaluate(places: 2, slow).0 == .allowed)
    let (verdict, entries) = try evaluate(places: 20, slow)
    #expect(!verdict.isAllowed)
    #expect(entries.count == 4)
    #expect(entries.last?.outcome == .failed("the rules of this request would take too long"))
    #expect(verdict == .denied(.tooManySteps))
    // A quick rule may stand at many nodes.
    let quick = String(repeating: "-", count: 10) + "ab"
    #expect(try evaluate(places: 20, quick).0 == .allowed)
  }

  @Test func `flags other than i are refused`() {
    #expect(evaluate("'BAR'.matches(/bar/i)") == .isTrue)
    for flags in ["g", "ig", "ii", "I", "m"] {
      #expect(evaluate("'bar'.matches(/bar/\(flags))").isInvalid, "\(flags)")
    }
    #expect(evaluate("'a/b'.matches(/a[/]b/)") == .isTrue)
    #expect(evaluate("'a/b'.matches(/a\\/b/)") == .isTrue)
    #expect(evaluate("'a'.matches( /a/ )") == .isTrue)
  }
}
