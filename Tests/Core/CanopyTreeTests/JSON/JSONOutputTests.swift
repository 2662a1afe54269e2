import CanopyTesting
import Testing

@testable import CanopyTree

struct JSONOutputTests {
  @Test func `a string is escaped only where necessary`() throws {
    for code in UInt32(0)...0x2FF {
      let scalar = try #require(Unicode.Scalar(code))
      for text in [String(Character(scalar)), "1234567" + String(Character(scalar)) + "89"] {
        let written = Node(text).json()
        try #require(try Node(json: written) == Node(text))
        if code >= 0x20, scalar != "\"", scalar != "\\" {
          try #require(written.utf8.elementsEqual(("\"" + text + "\"").utf8))
        }
      }
    }
    #expect(
      Node("\"\\/\n\r\t\u{8}\u{C}\u{0}\u{1F}\u{7F}").json()
        == #""\"\\/\n\r\t\u0008\u000c\u0000\u001f"# + "\u{7F}\"")
    #expect(Node("").json() == #""""#)
  }

  @Test func `a byte to escape is found at every position of a word`() throws {
    for length in 1...24 {
      for position in 0..<length {
        for special in ["\"", "\\", "\n", "\u{1F}", "é", "\u{10FFFF}", " ", "!", "#", "[", "]"] {
          let text =
            String(repeating: "a", count: position) + special
            + String(repeating: "~", count: length - position - 1)
          try #require(try Node(json: Node(text).json()) == Node(text))
          try #require(Node(text).json() == NaiveTree(NaiveLeaf(text)).node.json())
        }
      }
    }
  }

  static let numbers: [(Double, String)] = [
    (0, "0"), (-1, "-1"), (1.5, "1.5"), (0.1, "0.1"), (1e300, "1e+300"), (1e-7, "1e-07"),
    (123456.789, "123456.789"), (100, "100"), (0x1p53, "9007199254740992"), (-0.5, "-0.5"),
  ]

  @Test(arguments: numbers)
  func `numbers are short and read back unchanged`(number: Double, text: String) throws {
    let node = try #require(Node(number))
    #expect(node.json() == text)
    #expect(try Node(json: text) == node)
    var output = JSONOutput()
    output.append(number)
    #expect(output.text == text)
  }

  @Test func `a branch is written in the order of its keys`() {
    let node: Node = .of(["b": 1, "10": 2, "9": 3, "a": 4, "-5": 5])
    #expect(node.json() == #"{"-5":5,"9":3,"10":2,"a":4,"b":1}"#)
  }

  @Test func `plain style leaves out priorities and export style has them`() {
    let node = Node.of(["a": Node(1).withPriority(2), "b": "x"]).withPriority("p")
    #expect(node.json() == #"{"a":1,"b":"x"}"#)
    #expect(
      node.json(.export) == #"{".priority":"p","a":{".value":1,".priority":2},"b":"x"}"#)
    #expect(Node.absent.json() == "null" && Node.absent.json(.export) == "null")
  }

  static let arrays: [(String, String)] = [
    (#"{"0":"a"}"#, #"["a"]"#), (#"{"1":"a"}"#, #"[null,"a"]"#), (#"{"2":"a"}"#, #"{"2":"a"}"#),
    (#"{"0":1,"1":2,"2":3}"#, "[1,2,3]"), (#"{"0":1,"3":2}"#, "[1,null,null,2]"),
    (#"{"0":1,"4":2}"#, #"{"0":1,"4":2}"#), (#"{"1":1,"3":2}"#, "[null,1,null,2]"),
    (#"{"2":1,"3":2}"#, "[null,null,1,2]"), (#"{"0":1,"a":2}"#, #"{"0":1,"a":2}"#),
    (#"{"-1":1,"0":2}"#, #"{"-1":1,"0":2}"#), (#"{"0":1,"01":2}"#, #"{"0":1,"01":2}"#),
    (#"{"0":1,"2147483648":2}"#, #"{"0":1,"2147483648":2}"#),
    (#"{"0":{"0":1},"1":{"5":1}}"#, #"[[1],{"5":1}]"#),
    (#"{"2147483647":1}"#, #"{"2147483647":1}"#),
    (#"{"0":{".value":1,".priority":2}}"#, "[1]"),
  ]

  @Test(arguments: arrays)
  func `keys that are mostly 0, 1, 2 give an array`(text: String, expected: String) throws {
    let node = try Node(json: text)
    #expect(node.json() == expected)
    #expect(try Node(json: node.json(.export)) == node)
    if !text.contains(".priority") {
      #expect(node.json(.export) == text)
    }
    // An index or a priority does not change the text.
    var indexed = node
    indexed.addIndex(.value)
    #expect(indexed.json() == expected)
    #expect(node.withPriority(1).json() == expected)
  }

  @Test func `random nodes are written as arrays exactly as defined`() throws {
    try withSeed { random in
      for _ in 0..<1000 {
        let keys = Set((0..<1 + random.below(6)).map { _ in random.below(9) })
        let node = Node(children: keys.map { (Key(index: Int32($0)), Node(Int64($0))) })
        let largest = keys.max() ?? 0
        let isArray = largest < 2 * keys.count
        let expected =
          isArray
          ? "[" + (0...largest).map { keys.contains($0) ? "\($0)" : "null" }.joined(separator: ",")
            + "]"
          : "{" + keys.sorted().map { "\"\($0)\":\($0)" }.joined(separator: ",") + "}"
        try #require(node.json() == expected)
      }
    }
  }
}
