import Testing

@testable import CanopyTree

/// The query options of the line protocol and of REST.
struct QueryOptionsTests {
  private func query(_ json: String) throws -> Query {
    try Query(options: JSONValue(json: json))
  }

  static let valid: [(String, Query)] = {
    var queries: [(String, Query)] = [("{}", .all), (#"{"x":1,"print":"y"}"#, .all)]
    func add(
      _ json: String, _ order: Order = .priority, _ lower: Query.Bound? = nil,
      _ upper: Query.Bound? = nil, _ limit: Query.Limit? = nil
    ) {
      var query = Query.all
      (query.order, query.lower, query.upper, query.limit) = (order, lower, upper, limit)
      queries.append((json, query))
    }
    let five = Query.Bound(.integer(5))
    add(#"{"orderBy":"$key"}"#, .key)
    add(#"{"orderBy":"$value"}"#, .value)
    add(#"{"orderBy":"$priority"}"#, .priority)
    add(#"{"orderBy":"metrics/views"}"#, .child("metrics/views"))
    add(#"{"orderBy":"/a/"}"#, .child("a"))
    add(#"{"orderBy":"a","startAt":5}"#, .child("a"), five)
    add(#"{"orderBy":"a","startAfter":5}"#, .child("a"), .init(.integer(5), isInclusive: false))
    add(#"{"orderBy":"a","endAt":5}"#, .child("a"), nil, five)
    add(
      #"{"orderBy":"a","endBefore":5}"#, .child("a"), nil, .init(.integer(5), isInclusive: false))
    add(#"{"orderBy":"a","equalTo":5}"#, .child("a"), five, five)
    add(
      #"{"orderBy":"$value","startAt":[5,"k"],"endBefore":["x","l"],"limitToLast":3}"#, .value,
      .init(.integer(5), key: "k"),
      .init(.string(Array("x".utf8)), key: "l", isInclusive: false), .last(3))
    add(#"{"startAt":null,"limitToFirst":1}"#, .priority, .init(.absent), nil, .first(1))
    add(#"{"orderBy":"a","startAt":false,"endAt":1.5}"#, .child("a"), .init(.bool(false)), nil)
    queries[queries.count - 1].1.upper = .init(.double(1.5))
    add(#"{"orderBy":"$key","startAt":"a","endBefore":"b"}"#, .key, .init(.absent, key: "a"))
    queries[queries.count - 1].1.upper = .init(.absent, key: "b", isInclusive: false)
    add(#"{"orderBy":"$key","equalTo":"7"}"#, .key)
    queries[queries.count - 1].1.lower = .init(.absent, key: "7")
    queries[queries.count - 1].1.upper = .init(.absent, key: "7")
    add(#"{"limitToFirst":2.0}"#, .priority, nil, nil, .first(2))
    return queries
  }()

  @Test(arguments: valid)
  func `valid combinations of options`(json: String, expected: Query) throws {
    #expect(try query(json) == expected, "\(json)")
  }

  /// The options, and a part of the error's sentence.
  static let invalid: [(String, String)] = [
    (#"{"orderBy":1}"#, "orderBy must be a string"), (#"{"orderBy":null}"#, "orderBy must be"),
    (#"{"orderBy":["a"]}"#, "orderBy must be a string"), (#"{"orderBy":""}"#, "orderBy must name"),
    (#"{"orderBy":"/"}"#, "orderBy must name"), (#"{"orderBy":"$foo"}"#, "orderBy must name"),
    (#"{"orderBy":"a.b"}"#, "orderBy must name"),
    (#"{"orderBy":".priority"}"#, "orderBy must name"),
    (#"{"startAt":1,"startAfter":1}"#, "startAt and startAfter exclude each other"),
    (#"{"endAt":1,"endBefore":1}"#, "endAt and endBefore exclude each other"),
    (#"{"equalTo":1,"startAt":1}"#, "equalTo excludes the other bounds"),
    (#"{"equalTo":1,"startAfter":1}"#, "equalTo excludes the other bounds"),
    (#"{"equalTo":1,"endAt":1}"#, "equalTo excludes the other bounds"),
    (#"{"equalTo":1,"endBefore":1}"#, "equalTo excludes the other bounds"),
    (#"{"limitToFirst":1,"limitToLast":1}"#, "limitToFirst and limitToLast exclude each other"),
    (#"{"limitToFirst":0}"#, "limitToFirst must be a positive integer"),
    (#"{"limitToLast":-1}"#, "limitToLast must be a positive integer"),
    (#"{"limitToFirst":1.5}"#, "limitToFirst must be a positive integer"),
    (#"{"limitToFirst":"1"}"#, "limitToFirst must be a positive integer"),
    (#"{"limitToLast":null}"#, "limitToLast must be a positive integer"),
    (#"{"limitToLast":1e30}"#, "limitToLast must be a positive integer"),
    (#"{"startAt":{}}"#, "startAt must be a string, a number, a bool or null"),
    (#"{"endAt":{"a":1}}"#, "endAt must be a string, a number, a bool or null"),
    (#"{"startAt":[]}"#, "startAt must be a value or [value,key]"),
    (#"{"endBefore":[1]}"#, "endBefore must be a value or [value,key]"),
    (#"{"startAfter":[1,2]}"#, "startAfter must be a value or [value,key]"),
    (#"{"equalTo":[1,"k",2]}"#, "equalTo must be a value or [value,key]"),
    (#"{"equalTo":[{},"k"]}"#, "equalTo must be a string, a number, a bool or null"),
    (#"{"startAt":[1,"a.b"]}"#, "the key of startAt is not valid"),
    (#"{"orderBy":"$key","startAt":1}"#, "by key, startAt must be a string"),
    (#"{"orderBy":"$key","endAt":null}"#, "by key, endAt must be a string"),
    (
      #"{"orderBy":"$key","equalTo":["a","b"]}"#,
      "by key, equalTo must be one key, without the key of a child"
    ),
    (#"{"orderBy":"$key","startAfter":"a/b"}"#, "the key of startAfter is not valid"),
  ]

  @Test(arguments: invalid)
  func `invalid combinations, and a sentence that says which`(json: String, sentence: String) {
    do throws(TreeError) {
      let query = try Query(options: JSONValue(json: json))
      Issue.record("\(json) is accepted as \(query)")
    } catch {
      guard case .invalidQuery(let text) = error else {
        Issue.record("\(json): \(error)")
        return
      }
      #expect(text.contains(sentence), "\(json): \(text)")
    }
  }

  @Test func `a query created in code is checked too`() throws {
    for limit in [Query.Limit.first(0), .first(-1), .last(0)] {
      #expect(throws: TreeError.self) { try Query(limit: limit) }
    }
    #expect(throws: TreeError.self) { try Query(order: .key, lower: .init(.integer(1))) }
    #expect(throws: TreeError.self) { try Query(order: .key, upper: .init(.absent)) }
    #expect(try Query(order: .key, upper: .init(.absent, key: "a")).isUnbounded == false)
    #expect(Query.all.isUnbounded)
    #expect(try Query(order: .value).isUnbounded)
    #expect(try !Query(limit: .first(1)).isUnbounded)
  }

  @Test(arguments: ["startAt", "startAfter", "endAt", "endBefore", "equalTo"])
  func `the string of a bound has at most so many bytes`(name: String) throws {
    let longest = String(repeating: "é", count: Limits.boundBytesMax / 2)
    for order in ["a", "$value", "$priority"] {
      #expect(throws: Never.self) {
        try query(#"{"orderBy":"\#(order)","\#(name)":"\#(longest)"}"#)
      }
      let error = #expect(throws: TreeError.self) {
        try query(#"{"orderBy":"\#(order)","\#(name)":["\#(longest)x","k"]}"#)
      }
      #expect(error?.sentence.contains("at most \(Limits.boundBytesMax) bytes") == true)
    }
  }

  @Test func `the newest n posts are the last n by key`() throws {
    var generator = PushIDGenerator()
    let posts = (0..<50).map { i in (generator.next(at: 1000 + i) { 0 }, Node(i)) }
    let node = Node(children: posts.shuffled())
    let newest = try query(#"{"orderBy":"$key","limitToLast":3}"#).children(of: node)
    #expect(newest.map(\.node) == [47, 48, 49])
    let oldest = try query(#"{"limitToFirst":3}"#).children(of: node)
    #expect(oldest.map(\.node) == [0, 1, 2])
  }
}
