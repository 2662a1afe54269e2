import Testing

struct SwiftCodeTests {
  @Test func `comments and the contents of strings are removed, and code is kept`() {
    let cases = [
      (#"let a = 1 // print("x")"#, "let a = 1 "),
      (#"let a = "print(\"x\")" + b"#, #"let a = "" + b"#),
      (##"let a = #"print("x") \n"# + b"##, #"let a = "" + b"#),
      ("a /* b */ c", "a  c"),
    ]
    for (source, code) in cases { #expect(SwiftCode(source).text == code) }
  }

  @Test func `lines keep their numbers`() {
    let source = "a\n/* 1\n2 */ b\n\"\"\"\n  text \"quoted\"\n  \"\"\" + c\nd"
    #expect(SwiftCode(source).lines == ["a", "", " b", "\"", "", "\" + c", "d"])
  }
}
