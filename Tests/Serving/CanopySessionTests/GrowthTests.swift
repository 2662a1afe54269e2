import CanopyEngine
import CanopyTesting
import CanopyTree
import CanopyWire
import Testing

@testable import CanopySession

/// The bytes that writes add to the tree, which count for the address of the client.
@Suite(.timeLimit(.minutes(20))) struct GrowthTests {
  /// Returns the measured and the counted growth of writes, of which each makes keys of its own.
  private func growth(
    of count: Int, value: String, _ keys: (Int) -> String
  ) throws -> (measured: Int, counted: Int) {
    var tree = Tree(root: try Node(json: #"{"a":{"b":1},"n":[1,2]}"#))
    let before = tree.root
    var counted = 0
    for index in 0..<count {
      let location = try Location("a/x\(index)/" + keys(index))
      let value = try WriteValue(json: value)
      counted += TreeWrite.set(location, value).growth(over: tree.root, atMost: .max / 2)
      tree.apply([Assignment(location, value.node)])
    }
    return (MemoryCount.growth(from: before, to: tree.root), counted)
  }

  @Test(arguments: ["1", #"{"a":1,"b":"a text of some length"}"#, "[1,2,3]"])
  func `each key that a write makes counts with its memory`(value: String) throws {
    let names = (10..<38).map { "k\($0)" }.joined(separator: "/")
    let numbers = (10..<38).map { "\($0)" }.joined(separator: "/")
    for keys in [names, numbers, "k/" + numbers, numbers + "/k", "k"] {
      let (measured, counted) = try growth(of: 100, value: value) { _ in keys }
      #expect(counted >= measured / 2, "\(keys): \(counted), \(measured)")
      #expect(counted <= 4 * measured + 6_400, "\(keys): \(counted), \(measured)")
    }
  }

  @Test func `keys that exist do not count, and those of an update count once`() throws {
    let root = try Node(json: #"{"a":{"1":{"2":{"3":{"4":5,"x":[1]}}}}}"#)
    func growth(_ places: [String], _ value: WriteValue = WriteValue(1)) throws -> Int {
      let changes = try places.map { Request.Update(location: try Location($0), value: value) }
      return TreeWrite.update(.root, changes).growth(over: root, atMost: .max / 2)
    }
    #expect(try growth(["a/1/2/3/4"]) == 0)
    let new = try growth(["a/1/2/3/5/6/7/8"])
    #expect(new > 200)
    let both = try growth(["a/1/2/3/5/6/7/8", "a/1/2/3/5/6/7/9"])
    #expect(both < new + 200)
    #expect(try growth(["none/5/6/7/8"], WriteValue(.absent)) == 0)
  }

  /// A byte in a second, so the wait of a refusal says how many bytes have counted.
  private static let bytesMax: Int64 = 86_400

  /// Runs the parts of a server with a bound on the bytes of an address in a day.
  private func withParts(_ body: (LineParts, WriteQuotas) async throws -> Void) async throws {
    var limits = Limits()
    limits.treeBytesPerDayPerAddress = Int(Self.bytesMax)
    let quotas = WriteQuotas(limits)
    let parts = try await LineParts(limits: limits, quotas: quotas)
    try await withThrowingTaskGroup(of: Void.self) { group in
      group.addTask { await parts.run() }
      _ = try await parts.rules.replace(by: #"{"rules":{".write":true}}"#, in: parts.engine)
      try await body(parts, quotas)
      parts.engine.stop()
      try await group.waitForAll()
    }
  }

  private let owner = WriteQuotas.Owner(user: nil, network: "192.0.2.1")

  /// Returns the bytes that have counted for an address that has exceeded its bound.
  private func used(_ quotas: WriteQuotas) throws -> Int64 {
    let refusal = quotas.admit(owner, bytes: 1, growth: 1, now: ManualClock().now)
    return Self.bytesMax + (try #require(refusal?.retryMilliseconds)) / 1_000
  }

  @Test func `each element of an on-disconnect write counts`() async throws {
    try await withParts { parts, quotas in
      let count = 200_000
      let text = "[" + Array(repeating: "1", count: count).joined(separator: ",") + "]"
      let request = DisconnectRequest.set(try Location("a"), try WriteValue(json: text))
      try parts.operations.admit(
        onDisconnect: request, bytes: text.utf8.count, as: .anonymous, for: owner)
      let completion = await parts.operations.onDisconnect(
        request, text: text, as: .anonymous, [], in: nil, for: owner)
      #expect(completion.armed?.count == 1)
      #expect(try used(quotas) > 32 * Int64(count))
    }
  }

  @Test func `each new key of an update with many locations counts`() async throws {
    try await withParts { parts, quotas in
      let keys = (0..<20).map { "\($0)" }.joined(separator: "/")
      let changes = try (0..<300).map {
        Request.Update(location: try Location("k\($0)/\(keys)"), value: WriteValue(1))
      }
      let codes = ReplyCodes()
      let group = TurnGroup(network: "192.0.2.1", connection: ObjectIdentifier(parts))
      parts.operations.write(
        .tree(.update(.root, changes)), as: .anonymous, from: "192.0.2.1", turns: group
      ) { codes.add($0) }
      try await eventually { codes.all.count == 1 }
      #expect(try used(quotas) > 300 * 20 * 80)
    }
  }

  /// A value of about 2 KB that a packed branch may hold, and a location in it that gives it pages: one with many
  /// members, and one with many levels.
  private static func packedValue(hasLevels: Bool) -> (json: String, place: String) {
    guard hasLevels else {
      let members = (100..<310).map { "\"\($0 / 26)\($0 % 26)x\":1" }.joined(separator: ",")
      return ("{\(members)}", "0")
    }
    let level = "{\"a\":"
    let chain = String(repeating: level, count: 25) + "1" + String(repeating: "}", count: 25)
    let chains = (0..<12).map { "\"\($0)x\":\(chain)" }.joined(separator: ",")
    return ("{\(chains)}", "0x/" + String(repeating: "a/", count: 24) + "0")
  }

  @Test(arguments: [false, true], [false, true])
  func `the branches that writes unpack count with their memory, also if the writes come together`(
    hasLevels: Bool, comeTogether: Bool
  ) async throws {
    let (packed, place) = Self.packedValue(hasLevels: hasLevels)
    try await withParts { parts, quotas in
      let codes = ReplyCodes()
      let group = TurnGroup(network: "192.0.2.1", connection: ObjectIdentifier(parts))
      var count = 0
      func write(_ path: String, _ json: String) async throws {
        parts.operations.write(
          .tree(.set(try Location(path), try WriteValue(json: json))), as: .anonymous,
          from: "192.0.2.1", turns: group
        ) { codes.add($0) }
        count += 1
        if !comeTogether { try await eventually { codes.all.count == count } }
      }
      for number in 0..<32 {
        try await write("x\(number)", packed)
        try await write("x\(number)/\(place)", "1")
      }
      try await eventually { codes.all.count == count }
      let measured = MemoryCount.growth(from: .absent, to: parts.engine.root)
      let counted = Int(try used(quotas))
      #expect(counted >= measured * 9 / 10, "\(counted), \(measured)")
      // A key counts for each write that was admitted before the key existed.
      let most = comeTogether ? measured * 5 / 2 : measured * 5 / 4
      #expect(counted <= most, "\(counted), \(measured)")
    }
  }

  @Test func `the branches that on-disconnect writes unpack count when the writes are made`()
    async throws
  {
    let (packed, place) = Self.packedValue(hasLevels: false)
    try await withParts { parts, quotas in
      let group = TurnGroup(network: "192.0.2.1", connection: ObjectIdentifier(parts))
      var armed: [ArmedWrite] = []
      for number in 0..<16 {
        // They are armed before the branches exist.
        let request = DisconnectRequest.set(
          try Location("x\(number)/\(place)"), try WriteValue(json: "1"))
        let completion = await parts.operations.onDisconnect(
          request, text: "SET /x\(number)/\(place) 1", as: .anonymous, armed, in: nil, for: owner)
        armed = try #require(completion.armed)
      }
      for number in 0..<16 {
        let value = try Node(json: packed)
        _ = try await parts.engine.transact { _ in
          Decision(try Write([Write.Item(try Path("x\(number)"), value)]), ())
        }
      }
      let before = parts.engine.root
      let ended = Gate()
      parts.operations.carryOut(
        armed, as: .anonymous, from: "192.0.2.1", turns: group, retry: { _ in }
      ) { ended.open() }
      await ended.pass()
      let measured = MemoryCount.growth(from: before, to: parts.engine.root)
      #expect(measured > Int(Self.bytesMax))
      let counted = Int(try used(quotas))
      #expect(counted >= measured * 9 / 10, "\(counted), \(measured)")
      #expect(counted <= measured * 5 / 4, "\(counted), \(measured)")
    }
  }
}
