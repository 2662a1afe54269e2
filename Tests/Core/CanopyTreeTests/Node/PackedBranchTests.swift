import CanopyTesting
import Testing

@testable import CanopyTree

/// Small branches are stored as their text.
struct PackedBranchTests {
  private func record(_ json: String) -> PackedBranch? {
    Array(json.utf8).withUnsafeBytes { PackedBranch(json: $0) }
  }

  private func text(_ record: PackedBranch) -> String {
    record.withText { String(decoding: $0, as: UTF8.self) }
  }

  static let post: Node = .of([
    "author": "Ada", "body": "so\n\"it\" is", "half": Node(0.5) ?? .absent, "isDraft": false,
    "starCount": 1, "stars": .of(["u1": true]), "é": "\u{1F333}",
  ])

  static let postText = #"""
    {"author":"Ada","body":"so\n\"it\" is","half":0.5,"isDraft":false,"starCount":1,"stars":{"u1":true},"é":"🌳"}
    """#

  @Test func `each header begins with the mark of its digest`() {
    #expect(MemoryLayout<PackedBranch.Header>.offset(of: \.digestMark) == 0)
    #expect(MemoryLayout<LeafHeader>.offset(of: \.digestMark) == 0)
    #expect(MemoryLayout<InnerHeader>.offset(of: \.digestMark) == 0)
  }

  @Test func `a small branch is stored as its JSON text`() throws {
    let record = try #require(Self.post.packed)
    #expect(text(record) == Self.postText)
    #expect(Self.post.json(.plain) == Self.postText && Self.post.json(.export) == Self.postText)
    #expect(record.childCount == 7 && Self.post.childCount == 7)
    #expect(Self.post.brokenInvariant() == nil)
    #expect(Self.post == (try Node(json: Self.postText)))
  }

  @Test func `each child is read from the text`() {
    let post = Self.post
    #expect(post.child("author") == "Ada" && post.child("body") == "so\n\"it\" is")
    #expect(post.child("half").doubleValue == 0.5 && post.child("isDraft") == false)
    #expect(post.child("starCount") == 1 && post.child("é") == "\u{1F333}")
    #expect(post.at("stars/u1") == true && post.child("stars").childCount == 1)
    for key: Key in ["autho", "authors", "u1", "stars/", "7", "-OaBcDeFgHiJkLmNoPqR"].compactMap({
      try? Key($0)
    }) {
      #expect(post.child(key).isAbsent)
    }
    var keys: [String] = []
    post.forEachChild { key, child in
      keys.append(key.text)
      return child == post.child(key)
    }
    #expect(keys == ["author", "body", "half", "isDraft", "starCount", "stars", "é"])
  }

  @Test(arguments: [
    (#"{"a":{"b":1},"k":2}"#, "k", "3", #"{"a":{"b":1},"k":3}"#),
    (#"{"b":1,"d":2}"#, "a", "0", #"{"a":0,"b":1,"d":2}"#),
    (#"{"b":1,"d":2}"#, "c", #"{"x":true}"#, #"{"b":1,"c":{"x":true},"d":2}"#),
    (#"{"b":1,"d":2}"#, "e", #""t""#, #"{"b":1,"d":2,"e":"t"}"#),
    (#"{"b":1,"d":2}"#, "b", "null", #"{"d":2}"#),
    (#"{"b":1,"d":2}"#, "d", "null", #"{"b":1}"#),
    (#"{"b":1,"c":5,"d":2}"#, "c", "null", #"{"b":1,"d":2}"#),
    (#"{"b":1,"d":2}"#, "c", "null", #"{"b":1,"d":2}"#),
    (#"{"b":1}"#, "b", "null", "null"),
    (#"{"b":{"c":1}}"#, "b/c", "null", "null"),
    (#"{"b":{"c":1},"d":2}"#, "b/c", "null", #"{"d":2}"#),
    (#"{"b":{"c":1},"d":2}"#, "d/e/f", "1", #"{"b":{"c":1},"d":{"e":{"f":1}}}"#),
  ])
  func `a change gives the text of the new branch`(
    before: String, path: String, value: String, after: String
  ) throws {
    var node = try Node(json: before)
    #expect(node.packed != nil)
    let old = node
    node.set(try Node(json: value), at: try Path(path))
    #expect(node.json() == after && old.json() == before)
    #expect((node.packed != nil) == !node.isAbsent && node.brokenInvariant() == nil)
    #expect(node == (try Node(json: after)))
  }

  @Test(arguments: [
    #"{"7":1}"#, #"{"a\"b":1}"#, #"{"a":{".value":1,".priority":2}}"#,
    #"{"a":{".priority":2,"b":1}}"#, #"{"a":{"0":1}}"#, #"{"-OaBcDeFgHiJkLmNoPqR":{"a":1}}"#,
    #"{"x":{"-OaBcDeFgHiJkLmNoPqR":{"a":1}}}"#,
  ])
  func `possible arrays, priorities and branches under push ids have pages`(
    json: String
  ) throws {
    let node = try Node(json: json)
    #expect(node.packed == nil && record(json) == nil)
    #expect(node.json(.export) == json)
    // So does its insertion into a packed branch.
    let (key, child) = try #require(node.children?.first.map { ($0.key, $0.node) })
    var other = Node.of(["b": 1])
    other.set(child, at: Path.root.child(key))
    #expect(other.packed == nil && other.child(key) == child && other.child("b") == 1)
    #expect(other.brokenInvariant() == nil)
  }

  @Test func `a leaf under a push id is part of a packed branch`() {
    #expect(Node.of(["-OaBcDeFgHiJkLmNoPqR": true]).packed != nil)
  }

  @Test func `a branch is packed up to the bound and has pages beyond it`() throws {
    // {"a":"…","b":1}
    func node(_ bytes: Int) -> Node {
      .of(["a": Node(String(repeating: "x", count: bytes - 14)), "b": 1])
    }
    let largest = node(PackedBranch.bytesMax)
    #expect(largest.packed?.byteCount == PackedBranch.bytesMax)
    #expect(record(largest.json())?.byteCount == PackedBranch.bytesMax)
    let larger = node(PackedBranch.bytesMax + 1)
    #expect(larger.packed == nil && record(larger.json()) == nil)
    // Escapes count.
    let escaped = Node.of(["a": Node(String(repeating: "\n", count: PackedBranch.bytesMax / 2))])
    #expect(
      escaped.packed == nil && escaped.child("a").stringValue?.count == PackedBranch.bytesMax / 2)
    // A packed branch that grows beyond the bound becomes pages; the branches in it stay packed.
    var grown = largest
    grown.set(.of(["d": 1]), at: "c")
    #expect(grown.packed == nil && grown.child("c").packed != nil && grown.childCount == 3)
    #expect(grown.child("a") == largest.child("a") && grown.brokenInvariant() == nil)
    grown = largest
    grown.set(Node(String(repeating: "\n", count: 20)), at: "b")
    #expect(grown.packed == nil && grown.brokenInvariant() == nil && grown.childCount == 2)
  }

  @Test func `two versions with different text differ`() {
    let (a, b) = (Node.of(["x": 1, "y": 2]), Node.of(["x": 1, "y": 2]))
    #expect(a == b && !a.isIdentical(to: b) && a.identity != b.identity)
    #expect(a != Node.of(["x": 1, "y": 3]))
    // A packed branch and pages may be equal.
    var pages = Node.of(["x": 1, "y": 2, "7": 3])
    pages.set(.absent, at: "7")
    #expect(pages.packed == nil && pages == a && a == pages)
    #expect(pages.json() == a.json() && pages.hash == a.hash)
  }

  @Test(arguments: [
    "", "{", "{}", "[]", "1", "null", #"{"a"}"#, #"{"a":}"#, #"{"a":1"#, #"{"a":1,}"#, #"{"a":1}}"#,
    #"{ "a":1}"#, #"{"a": 1}"#, #"{"a":1 }"#, #"{"a":1}"# + " ", #"{"b":1,"a":2}"#,
    #"{"a":1,"a":2}"#,
    #"{"a":01}"#, #"{"a":-0}"#, #"{"a":1.0}"#, #"{"a":1e3}"#, #"{"a":+1}"#, #"{"a":-}"#,
    #"{"a":1234567890123456789}"#, #"{"a":null}"#, #"{"a":{}}"#, #"{"a":[1]}"#, #"{"a":tru}"#,
    #"{"a":truE}"#, #"{"a":"}"#, #"{"a":"\"}"#, #"{"a":"\/"}"#, #"{"a":"\u0041"}"#, #"{"a":"\b"}"#,
    #"{"a.b":1}"#, #"{".sv":"timestamp"}"#, #"{"":1}"#, #"{"a":{"b":1}"#, #"{"a":"b""#,
    "{\"a\":\"\n\"}", #"{"a":"b"c}"#, #"{"a":1;"b":2}"#,
  ])
  func `any other text is left to the reader`(json: String) {
    #expect(record(json) == nil)
  }

  @Test func `invalid UTF-8 is not packed`() {
    for bytes: [UInt8] in [[0xFF], [0xC3], [0xE2, 0x82], [0xED, 0xA0, 0x80]] {
      let value = Array(#"{"a":""#.utf8) + bytes + Array(#""}"#.utf8)
      let key = Array(#"{""#.utf8) + bytes + Array(#"":1}"#.utf8)
      #expect(value.withUnsafeBytes { PackedBranch(json: $0) } == nil)
      #expect(key.withUnsafeBytes { PackedBranch(json: $0) } == nil)
    }
  }

  @Test func `a packed branch is at most as deep as a value`() throws {
    func nested(_ depth: Int) -> String {
      String(repeating: #"{"a":"#, count: depth) + "1" + String(repeating: "}", count: depth)
    }
    #expect(record(nested(Limits.depthMax)) != nil)
    #expect(record(nested(Limits.depthMax + 1)) == nil)
    #expect(try Node(json: nested(Limits.depthMax)).height == Limits.depthMax)
  }

  /// Changed text of a packed branch is accepted only if reading and writing it gives the same
  /// text.
  @Test func `randomly changed text is accepted exactly if it is canonical`() throws {
    var random = SeededRandom(printingSeedFor: "PackedBranchTests")
    var records = 0
    var whole = Self.post
    whole.set(.absent, at: "half")
    for _ in 0..<20_000 {
      var bytes = Array(whole.json().utf8)
      for _ in 0..<(1 + random.below(2)) {
        let i = random.below(bytes.count)
        switch random.below(3) {
        case 0: bytes[i] = random.pick(Array(#"{}",:\0123.-tfnu a"#.utf8))
        case 1: bytes.remove(at: i)
        default: bytes.insert(random.pick(Array(#"{}",:\0123.-tfnu a"#.utf8)), at: i)
        }
      }
      let read = try? bytes.withUnsafeBytes { try WriteValue(json: $0) }
      guard let record = bytes.withUnsafeBytes({ PackedBranch(json: $0) }) else { continue }
      records += 1
      let node = try #require(read?.node)
      #expect(read?.serverValues.isEmpty == true)
      #expect(
        node.packed?.hasSameText(as: record) == true, "\(String(decoding: bytes, as: UTF8.self))")
      #expect(node.childCount == record.childCount)
    }
    #expect(records > 1_000)
  }

  @Test func `reading the row of a packed branch copies its text without parsing`() throws {
    var builder = TreeBuilder()
    let location = Array("posts/-OaBcDeFgHiJkLmNoPqR".utf8)
    let row = #"{"body":"some text","stars":{"a":true}}"#
    try Array(row.utf8).withUnsafeBytes { json in
      try location.withUnsafeBytes { try builder.add(json: json, at: $0) }
    }
    #expect(builder.counts.read == 0 && builder.counts.copied == 1)
    let post = try builder.finish().at("posts/-OaBcDeFgHiJkLmNoPqR")
    #expect(post.json() == row && post.packed != nil)
  }
}
