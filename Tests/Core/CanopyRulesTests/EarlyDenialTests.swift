import CanopyTree
import Testing

@testable import CanopyRules

/// Writes that the rules deny before they are applied.
struct EarlyDenialTests {
  private let data = Result { try tree(#"{"a":{"owner":"ann"}}"#) }

  /// Whether rules deny a write at `/a/b` without any data, and with the data before the write.
  private func denials(_ write: String, _ caller: RuleCaller) throws -> [Bool] {
    let rules = try rules(#"{"rules":{"$a":{"$b":{".write":"\#(write)"}}}}"#)
    let location = try Location("a/b")
    return try [nil, data.get()].map { rules.denies([location], before: $0, as: caller) }
  }

  @Test func `a rule that needs no data denies at any time`() throws {
    #expect(try denials("false", user("ann")) == [true, true])
    #expect(try denials("true", user("ann")) == [false, false])
    #expect(try denials("auth != null", nobody) == [true, true])
    #expect(try denials("auth != null", user("ann")) == [false, false])
    #expect(try denials("auth.uid === $a", user("bob")) == [true, true])
    #expect(try denials("auth != null && newData.exists()", nobody) == [true, true])
  }

  @Test func `a rule that needs the data before the write denies when that is known`() throws {
    let isOwner = "data.parent().child('owner').val() === auth.uid"
    #expect(try denials(isOwner, user("bob")) == [false, true])
    #expect(try denials(isOwner, user("ann")) == [false, false])
    #expect(try denials("root.child('x').exists()", nobody) == [false, true])
    #expect(try denials("now < 5", nobody) == [false, true])
  }

  @Test func `a rule that needs the data after the write does not deny early`() throws {
    for rule in ["newData.exists()", "!newData.exists()", "newData.parent().parent().exists()"] {
      #expect(try denials(rule, nobody) == [false, false], "\(rule)")
    }
    #expect(try denials("newData.exists() && auth != null", nobody) == [false, false])
  }

  @Test func `a rule that fails denies, and one above or another location does not help`() throws {
    #expect(try denials("auth.token.level > 3", user("ann")) == [true, true])
    let rules = try rules(
      #"{"rules":{"a":{".write":"newData.exists()","b":{".write":false}},"c":{".write":false}}}"#)
    let locations = try ["a/b", "a/c", "c"].map { try Location($0) }
    #expect(!rules.denies(locations.prefix(2), before: nil, as: nobody))
    #expect(rules.denies(locations, before: nil, as: nobody))
    #expect(try rules.denies([Location("")], before: nil, as: nobody), "no rule grants the root")
    #expect(!rules.denies([Location](), before: nil, as: nobody))
  }

  @Test func `a few steps of the rules decide, or it stays open`() throws {
    let rules = try rules(
      #"{"rules":{"$a":{".read":"$a.matches(/^a*$/)",".write":"$a.matches(/^a*$/)"}}}"#)
    for (key, isAllowed) in [(String(repeating: "a", count: 100), true), ("b", false)] {
      let path = try Path(key)
      let write = try Write(setting: [Assignment(path, 1)])
      #expect(rules.denies(write, as: nobody, stepsMax: 10_000) == !isAllowed)
      #expect(rules.mayRead(path, in: .absent, as: nobody, stepsMax: 10_000) == isAllowed)
    }
    let path = try Path(String(repeating: "a", count: 100))
    let write = try Write(setting: [Assignment(path, 1)])
    #expect(rules.denies(write, as: nobody, stepsMax: 50) == nil)
    #expect(rules.mayRead(path, in: .absent, as: nobody, stepsMax: 50) == nil)
    #expect(rules.mayRead(path, in: .absent, as: nobody, stepsMax: 0) == nil)
  }

  @Test func `the built-in rules deny nearly every write of an anonymous client without data`()
    throws
  {
    let rules = try BuiltInRules.load()
    let paths = [
      "users/u", "posts/p", "posts/p/stars/x", "user-posts/u/p", "post-comments/p/c",
      "user-comments/u/c", "x", "",
    ]
    for path in paths {
      #expect(try rules.denies([Location(path)], before: nil, as: nobody), "/\(path)")
    }
    // A free user name depends on the written data.
    #expect(try !rules.denies([Location("usernames/n")], before: .absent, as: nobody))
    #expect(try !rules.denies([Location("posts/p")], before: nil, as: user("ann")))
  }

  @Test func `a validate rule that needs no written data denies a value, and no removal`() throws {
    let rules = try rules(
      #"{"rules":{"$a":{".write":true,".validate":"auth != null","b":{".validate":"newData.isString()"},"$other":{".validate":false}}}}"#
    )
    func denies(_ path: String, _ value: Node, _ caller: RuleCaller) throws -> Bool {
      let write = try Write(setting: [Assignment(try Location(path), value)])
      let early = rules.denies(write, before: nil, as: caller)
      #expect(rules.denies(write, before: .absent, as: caller) == early)
      return early
    }
    #expect(try denies("x/y", 1, user("ann")))
    #expect(try denies("x/y/z", 1, user("ann")))
    #expect(try !denies("x/y", .absent, user("ann")))
    #expect(try !denies("x/y/.priority", 1, user("ann")))
    #expect(try !denies("x/b", 1, user("ann")), "the written data decides")
    #expect(try denies("x/b", "text", nobody), "a rule above denies")
    #expect(try !denies("x", try tree(#"{"b":"t"}"#), user("ann")))
    let mixed = try [("x/b", Node.absent), ("x/c", .absent), ("x/d", 1)].map {
      Assignment(try Location($0), $1)
    }
    #expect(rules.denies(try Write(setting: mixed), before: nil, as: user("ann")))
    let removals = try Write(setting: Array(mixed.prefix(2)))
    #expect(!rules.denies(removals, before: nil, as: user("ann")))
  }

  @Test func `the built-in rules deny unknown members of a profile without data`() throws {
    let rules = try BuiltInRules.load()
    let path = try Location("users/ann/z1")
    #expect(
      rules.denies(try Write(setting: [Assignment(path, 1)]), before: nil, as: user("ann")))
    let removal = try Write(setting: [Assignment(path, .absent)])
    #expect(!rules.denies(removal, before: nil, as: user("ann")))
  }

  @Test func `a server value counts as a value, and a priority alone does not`() throws {
    let rules = try BuiltInRules.load()
    func denies(_ json: String) throws -> Bool {
      let write = try Write.set(Location("users/ann/z1"), WriteValue(json: json))
      return rules.denies(write, before: nil, as: user("ann"))
    }
    #expect(try denies(#"{".sv":"timestamp"}"#))
    #expect(try denies(#"{"a":{"b":{".sv":{"increment":1}}}}"#))
    #expect(try !denies(#"{".value":null,".priority":{".sv":"timestamp"}}"#))
  }

  @Test func `rules that use too many steps deny`() throws {
    let rules = try rules(
      #"{"rules":{"$a":{".write":"auth.uid.replace('a','aaaaaaaaaaaaaaaa').replace('a','aaaaaaaaaaaaaaaa').replace('a','aaaaaaaaaaaaaaaa').replace('a','aaaaaaaaaaaaaaaa').replace('a','aaaaaaaaaaaaaaaa').length > 0"}}}"#
    )
    let locations = (0..<3_000).map { Location(Path.root.child(Key(index: $0))) }
    let caller = user(String(repeating: "a", count: 100))
    #expect(rules.denies(locations, before: nil, as: caller))
    #expect(!rules.authorize(locations, before: .absent, after: true, as: caller).isAllowed)
  }
}
