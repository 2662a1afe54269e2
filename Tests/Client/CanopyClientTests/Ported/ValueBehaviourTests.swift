import CanopyTesting
import CanopyTree
import Foundation
import Testing

@testable import CanopyClient

/// Values, keys and queries against a live server, as the original client has them.
@Suite(.timeLimit(.minutes(20))) struct ValueBehaviourTests {
  /// Returns the first value of an observer.
  private func value(_ query: DatabaseQuery) async throws -> DataSnapshot {
    try await query.observeSingleEventAndPreviousSiblingKey(of: .value).0
  }

  @Test(arguments: WireKind.allCases)
  func `absent data is NSNull in snapshots`(_ kind: WireKind) async throws {
    try await withBackend(over: kind) { backend in
      let place = try await backend.client().reference(withPath: "none")
      for snapshot in [try await value(place), try await place.getData()] {
        #expect(!snapshot.exists())
        #expect(snapshot.value is NSNull)
        #expect(snapshot.priority is NSNull)
        #expect(snapshot.valueInExportFormat() is NSNull)
        #expect(snapshot.childSnapshot(forPath: "a/b").value is NSNull)
      }
      try await place.setValue(1)
      #expect(try await place.getData().priority is NSNull)
      let inputs = Received<Bool>()
      try await place.child("below").runTransactionBlock { data in
        inputs.add(data.value is NSNull && data.priority is NSNull)
        inputs.add(data.childData(byAppendingPath: "x").value is NSNull)
        return .abort()
      }
      #expect(inputs.values == [true, true])
    }
  }

  @Test(arguments: WireKind.allCases)
  func `a value and a priority can both be server values in the form with a priority`(
    _ kind: WireKind
  )
    async throws
  {
    try await withBackend(over: kind) { backend in
      let root = try await backend.client().reference(withPath: "t")
      let now = Int(backend.parts.clock.now)
      let timestamp = CanopyClient.ServerValue.timestamp()
      try await root.child("a").setValue([".value": timestamp, ".priority": 3])
      try await root.child("b").setValue([".value": timestamp, ".priority": timestamp])
      try await root.updateChildValues([
        "c": [".value": CanopyClient.ServerValue.increment(2), ".priority": "p"]
      ])
      try await root.child("d").setValue(timestamp, andPriority: timestamp)
      let snapshot = try await root.getData()
      for (key, priority) in [("a", 3), ("b", now), ("d", now)] {
        let child = snapshot.childSnapshot(forPath: key)
        #expect(child.value as? Int == now && child.priority as? Int == priority, "\(key)")
      }
      let counted = snapshot.childSnapshot(forPath: "c")
      #expect(counted.value as? Int == 2 && counted.priority as? String == "p")
    }
  }

  @Test(arguments: WireKind.allCases)
  func `keys that spell integers in any form sort by number, at client and server`(_ kind: WireKind)
    async throws
  {
    try await withBackend(over: kind) { backend in
      let sorted = [
        "-2147483648", "-7", "0", "-0", "00", "2", "02", "3", "03", "003", "10", "2147483647",
        "+1", "-", "000000000003", "2147483648", "3a", "a",
      ]
      let root = try await backend.client().reference(withPath: "t")
      try await root.setValue(Dictionary(uniqueKeysWithValues: sorted.map { ($0, true) }))
      // The server limits, and the client that observed everything limits by itself.
      let other = try await backend.client().reference(withPath: "t")
      #expect(try await value(root.queryOrderedByKey()).childSnapshots.map(\.key) == sorted)
      root.keepSynced(true)
      for place in [root, other] {
        for count in 1...sorted.count {
          let first = try await place.queryOrderedByKey().queryLimited(toFirst: UInt(count))
            .getData()
          #expect(first.childSnapshots.map(\.key) == Array(sorted.prefix(count)))
        }
        let range = place.queryOrderedByKey().queryStarting(atValue: "02").queryEnding(
          atValue: "03")
        #expect(try await value(range).childSnapshots.map(\.key) == ["02", "3", "03"])
      }
    }
  }

  @Test(arguments: WireKind.allCases)
  func `a key with leading zeros is no index of an array`(_ kind: WireKind) async throws {
    try await withBackend(over: kind) { backend in
      let root = try await backend.client().reference(withPath: "t")
      try await root.setValue(["0": "a", "01": "b", "1": "c"])
      let snapshot = try await root.getData()
      #expect(snapshot.value as? [String: String] == ["0": "a", "01": "b", "1": "c"])
      #expect(snapshot.childSnapshots.map(\.key) == ["0", "1", "01"])
    }
  }

  private struct Record: Codable, Equatable {
    var data: Data
    var amount: Decimal
    var amounts: [Decimal]
    var note: Data?
  }

  @Test(arguments: WireKind.allCases)
  func `data are text in Base64, and decimals are numbers`(_ kind: WireKind) async throws {
    try await withBackend(over: kind) { backend in
      let record = Record(
        data: Data([0, 255, 16, 32]), amount: try #require(Decimal(string: "12345.678")),
        amounts: [3, try #require(Decimal(string: "0.1"))], note: nil)
      let place = try await backend.client().reference(withPath: "r")
      try await place.setValue(from: record)
      #expect(
        try backend.node("r")
          == json(#"{"data":"AP8QIA==","amount":12345.678,"amounts":[3,0.1]}"#))
      #expect(try await place.getData().data(as: Record.self) == record)
      try await place.child("amount").setValue(NSDecimalNumber(string: "9007199254740993"))
      #expect(try backend.node("r/amount") == Node(9_007_199_254_740_993))
      try await place.child("amount").setValue(Decimal(string: "-0.7") as Any)
      #expect(try backend.node("r/amount") == json("-0.7"))
      await #expect(throws: DatabaseError.self) { try await place.setValue(Decimal.nan) }
      await #expect(throws: DatabaseError.self) { try await place.setValue(Data([1])) }
      try await place.child("data").setValue("not Base64!")
      let other = try await place.getData()
      #expect(throws: DecodingError.self) { try other.data(as: Record.self) }
    }
  }

  /// Sets the priority in a transaction.
  private func transact(_ place: DatabaseReference, _ priority: Any) async throws {
    let held = Held(value: priority)
    try await place.runTransactionBlock { data in
      data.priority = held.value
      return .success(withValue: data)
    }
  }

  /// `@unchecked Sendable`: the value is constant, and the tests only use values of `Sendable` types.
  private struct Held: @unchecked Sendable {
    let value: Any
  }

  @Test(arguments: WireKind.allCases)
  func `a priority is a number, a string or nothing`(_ kind: WireKind) async throws {
    try await withBackend(over: kind) { backend in
      let place = try await backend.client().reference(withPath: "p")
      try await place.setValue(1)
      let refused: [any Sendable] = [
        true, false, Double.nan, Double.infinity, -Double.infinity, [1], ["a": 1], [String: Int](),
        [Int](), Date(), Data(), [".sv": "other"],
      ]
      for priority in refused {
        await #expect(throws: DatabaseError.self, "\(priority)") {
          try await place.setPriority(priority)
        }
        await #expect(throws: DatabaseError.self, "\(priority)") {
          try await place.setValue(1, andPriority: priority)
        }
        await #expect(throws: DatabaseError.self, "\(priority)") {
          try await place.setValue([".value": 1, ".priority": priority])
        }
        await #expect(throws: DatabaseError.self, "\(priority)") {
          try await transact(place, priority)
        }
      }
      #expect(try backend.node("p") == 1)
      let accepted: [(Any?, String)] = [
        (2.5, #"{".value":1,".priority":2.5}"#), ("x", #"{".value":1,".priority":"x"}"#),
        (CanopyClient.ServerValue.increment(2), #"{".value":1,".priority":2}"#),
        (NSNull(), "1"), (3, #"{".value":1,".priority":3}"#), (nil, "1"),
      ]
      for (priority, expected) in accepted {
        try await place.setPriority(priority)
        #expect(try backend.node("p") == json(expected))
      }
    }
  }

  @Test(arguments: WireKind.allCases)
  func `a limit is positive and has thirty-one bits`(_ kind: WireKind) async throws {
    try await withBackend(over: kind) { backend in
      let place = try await backend.client().reference(withPath: "p")
      try await place.setValue(["a": 1])
      for limit in [0, 1 << 31, UInt(UInt32.max), 1 << 63, .max] as [UInt] {
        for query in [place.queryLimited(toFirst: limit), place.queryLimited(toLast: limit)] {
          let error = await #expect(throws: DatabaseError.self) { try await query.getData() }
          #expect(error?.code == .invalidQuery)
        }
      }
      for limit in [1, 1 << 31 - 1] as [UInt] {
        #expect(try await place.queryLimited(toLast: limit).getData().childrenCount == 1)
      }
    }
  }

  @Test(arguments: WireKind.allCases)
  func `a bound is a string, a number, nothing or, except by priority, a bool`(_ kind: WireKind)
    async throws
  {
    try await withBackend(over: kind) { backend in
      let place = try await backend.client().reference(withPath: "p")
      try await place.setValue(["a": true, "b": 1])
      func bounds(_ query: DatabaseQuery, _ value: Any?) -> [DatabaseQuery] {
        [
          query.queryStarting(atValue: value), query.queryStarting(afterValue: value),
          query.queryEnding(atValue: value), query.queryEnding(beforeValue: value),
          query.queryEqual(toValue: value), query.queryEqual(toValue: value, childKey: "a"),
        ]
      }
      let byPriority = [place.queryOrderedByPriority(), place as DatabaseQuery]
      let others = [place.queryOrderedByValue(), place.queryOrdered(byChild: "x")]
      let refused: [Any] = [
        [1], ["a": 1], Date(), Double.nan, Double.infinity, CanopyClient.ServerValue.timestamp(),
      ]
      var wrong = byPriority.flatMap { bounds($0, true) + bounds($0, false) }
      for value in refused { wrong += (byPriority + others).flatMap { bounds($0, value) } }
      for value in [nil, 1, true] as [Any?] { wrong += bounds(place.queryOrderedByKey(), value) }
      wrong.append(place.queryOrderedByKey().queryStarting(atValue: "a", childKey: "b"))
      wrong.append(place.queryStarting(atValue: 1, childKey: "a.b"))
      for query in wrong {
        let error = await #expect(throws: DatabaseError.self) { try await query.getData() }
        #expect(error?.code == .invalidQuery)
      }
      for query in byPriority {
        for value in [nil, 1, "x"] as [Any?] {
          for bounded in bounds(query, value) { _ = try await bounded.getData() }
        }
      }
      #expect(
        try await place.queryOrderedByValue().queryEqual(toValue: true).getData().value
          as? [String: Bool] == ["a": true])
    }
  }
}
