import CanopyTesting
import CanopyTree
import Foundation
import Testing

@testable import CanopyClient

/// Conversion between `Any?` and the tree.
struct AnyValueTests {
  private func node(_ value: Any?) throws -> Node {
    let write = try AnyValue.write(value)
    #expect(write.serverValues.isEmpty)
    return write.node
  }

  @Test func `values of Swift and of Foundation are converted equally`() throws {
    let swift: [String: Any] = [
      "text": "é", "yes": true, "no": false, "one": 1, "big": Int64.max, "half": 0.5,
      "list": [1, "two", ["three": 3]], "small": UInt8(7), "float": Float(1.5),
    ]
    let foundation = NSDictionary(dictionary: [
      "text": NSString(string: "é"), "yes": NSNumber(value: true), "no": NSNumber(value: false),
      "one": NSNumber(value: 1), "big": NSNumber(value: Int64.max), "half": NSNumber(value: 0.5),
      "list": NSArray(array: [1, "two", NSDictionary(dictionary: ["three": 3])]),
      "small": NSNumber(value: UInt8(7)), "float": NSNumber(value: Float(1.5)),
    ])
    let expected = json(
      #"{"text":"é","yes":true,"no":false,"one":1,"big":9223372036854775807,"half":0.5,"#
        + #""list":[1,"two",{"three":3}],"small":7,"float":1.5}"#)
    #expect(try node(swift) == expected)
    #expect(try node(foundation) == expected)
    #expect(try node(AnyValue.value(of: expected)) == expected)
  }

  @Test func `every form of an absent value is accepted`() throws {
    let optional: Int? = nil
    let nothing: [Any?] = [nil, NSNull(), [Any](), [String: Any](), optional as Any]
    for value in nothing { #expect(try node(value).isAbsent) }
    #expect(
      try node(["a": optional as Any, "b": NSNull(), "c": Int?(3) as Any]) == json(#"{"c":3}"#))
  }

  @Test func `values cast to the types that applications use`() throws {
    let value = AnyValue.value(
      of: json(
        #"{"title":"t","starCount":2,"ratio":1,"stars":{"u":true},"list":[1,2],"open":false}"#))
    let post = try #require(value as? [String: AnyObject])
    #expect(post["title"] as? String == "t")
    #expect(post["starCount"] as? Int == 2)
    #expect(post["stars"] as? [String: Bool] == ["u": true])
    #expect(post["open"] as? Bool == false)
    #expect(post["list"] as? [Int] == [1, 2])
    let plain = try #require(value as? [String: Any])
    #expect(plain["ratio"] as? Double == 1 && plain["ratio"] as? Int == 1)
    #expect(plain["stars"] as? [String: Any] != nil)
    let dictionary = try #require(value as? NSDictionary)
    #expect(dictionary["title"] as? String == "t")
    #expect((dictionary["stars"] as? NSDictionary)?["u"] as? Bool == true)
    #expect(AnyValue.value(of: "x") as? String == "x")
    #expect(AnyValue.value(of: 3) as? Int == 3)
    #expect(AnyValue.value(of: .absent) is NSNull)
    #expect(AnyValue.value(of: json(#"{"0":"a","2":"c"}"#)) as? [Any] != nil)
    #expect(AnyValue.value(of: json(#"{"0":"a","5":"c"}"#)) as? [String: String] != nil)
  }

  @Test func `priorities and server values have the form of JSON`() throws {
    let write = try AnyValue.write([
      "at": CanopyClient.ServerValue.timestamp(), "n": CanopyClient.ServerValue.increment(2),
      "x": [".value": 1, ".priority": "p"],
    ])
    #expect(write.serverValues.count == 2)
    #expect(write.node == json(#"{"x":{".value":1,".priority":"p"}}"#))
    for value in [1, ["a": 1], ["x", "y"]] as [Any] {
      let write = try AnyValue.write(value, priority: .some(3))
      #expect(write.node.priority == 3)
      #expect(write.node.withoutPriority == (try node(value)))
    }
    let exported = AnyValue.value(of: json(#"{".value":1,".priority":2}"#), export: true)
    #expect((exported as? [String: Int])?[".priority"] == 2)
  }

  private struct Opaque {}

  @Test func `an unsupported value is an error, not a trap`() throws {
    var deep: Any = "bottom"
    for _ in 0..<Limits.depthMax { deep = ["a": deep] }
    #expect(try node(deep).height == Limits.depthMax)
    for _ in 0..<200 { deep = ["a": deep] }
    let values: [Any] = [
      Double.nan, Double.infinity, Float.nan, Opaque(), [Opaque()], ["a": Date()], Data(), deep,
      ["a.b": 1], ["a/b": 1], ["": 1], ["$a": 1], ["a#": 1], ["a[": 1], ["a]": 1], [1: 2],
      ["\u{7F}": 1], [String(repeating: "k", count: Limits.keyBytesMax + 1): 1],
      [".sv": "nonsense"], [".value": 1, "other": 2], [".priority": true, "a": 1],
    ]
    for value in values {
      let error = #expect(throws: DatabaseError.self) { try AnyValue.write(value) }
      #expect(error?.code == .invalidData, "\(type(of: value))")
    }
  }

  @Test func `a collection that contains itself is an error, not a trap`() throws {
    let (dictionary, array) = (NSMutableDictionary(), NSMutableArray())
    dictionary["own"] = dictionary
    array.add(array)
    let (first, second) = (NSMutableDictionary(), NSMutableArray())
    first["second"] = second
    second.add(first)
    second.add(first)
    defer {
      for each in [dictionary, first] { each.removeAllObjects() }
      array.removeAllObjects()
    }
    for value in [dictionary, array, first, ["a": [dictionary]], [second]] as [Any] {
      let error = #expect(throws: DatabaseError.self) { try AnyValue.write(value) }
      #expect(error?.code == .invalidData)
    }
    // The same object twice is no circle, and the bound is that of the tree.
    let leaf: NSDictionary = ["x": 1]
    #expect(try node(["a": leaf, "b": NSArray(array: [leaf, leaf])]).childCount == 2)
    var deep: NSObject = NSString(string: "bottom")
    for _ in 0..<Limits.depthMax { deep = NSDictionary(dictionary: ["a": deep]) }
    #expect(try node(deep).height == Limits.depthMax)
    let deeper = NSDictionary(dictionary: ["a": deep])
    #expect(throws: DatabaseError.self) { try AnyValue.write(deeper) }
  }

  @Test func `a write is encoded completely`() throws {
    var random = SeededGenerator(printingSeedFor: "AnyValueTests")
    for text in [
      #"{"a":{".sv":"timestamp"},"b":{".value":1,".priority":{".sv":"timestamp"}}}"#,
      #"{".sv":{"increment":1.5},".priority":4}"#,
      #"{"a":{"b":{".sv":"timestamp"}},".priority":"p"}"#,
      #"{".priority":{".sv":{"increment":1}},"a":{"x":1,"y":{".sv":"timestamp"}}}"#,
    ] {
      let value = try WriteValue(json: text)
      try expectSame(value)
    }
    let writes = RandomWrites()
    for _ in 0..<200 {
      for item in writes.next(&random).items { try expectSame(item.value) }
    }
  }

  private func expectSame(_ value: WriteValue) throws {
    var output = JSONOutput()
    output.append(value)
    let back = try WriteValue(json: output.text)
    #expect(back.node == value.node, "\(output.text)")
    let order: (LocatedServerValue, LocatedServerValue) -> Bool = {
      ($0.path, $0.isPriority ? 1 : 0) < ($1.path, $1.isPriority ? 1 : 0)
    }
    #expect(
      back.serverValues.sorted(by: order) == value.serverValues.sorted(by: order), "\(output.text)")
  }
}
