import CanopyEngine
import CanopyTesting
import CanopyTree
import Testing

@testable import CanopyEvents

/// The bound on the values that a client gets from the hub that most connections share.
@Suite(.timeLimit(.minutes(20))) struct SharedValueTests {
  private static let network = "192.0.2.1"

  /// A text of which twenty have more bytes than the bound, with the rest of their values.
  private static let text = String(repeating: "x", count: SharedValues.bytesMax / 20)

  private func sharedBytes(_ setting: OwnHubSetting, _ numbers: [Int]) async throws -> Int {
    var sum = 0
    for number in numbers { sum += try await setting.sharedBytes(number) }
    return sum
  }

  /// Waits until each of 32 subscriptions has so many events. Another thread makes large events of an own hub.
  private func waitForEvents(
    _ count: Int, of number: Int, _ setting: OwnHubSetting
  ) async throws {
    try await eventually {
      try await setting.giveTurns()
      let counts = try await setting.onLoop(number) { $0.counts }
      return counts.count == 32 && counts.values.allSatisfy { $0 == count }
    }
  }

  @Test(arguments: [SharedValueTests.network, nil])
  func `the shared hub sends a client no more than the bound of values for one commit`(
    _ network: String?
  ) async throws {
    try await withOwnHubSetting { setting in
      try await setting.write(value: Node(Self.text))
      let other = try await setting.open(1, network: "192.0.2.2")
      var numbers: [Int] = []
      for _ in 0..<4 { numbers.append(try await setting.open(32, network: network)) }
      try await setting.giveTurns()
      try await setting.write(value: Node(Self.text + "y"))
      try await setting.waitUntilIdle()
      // The other client has its event before the turns of own hubs.
      #expect(try await setting.onLoop(other) { ($0.counts, $0.hub.drain()) } == ([1: 1], true))
      #expect(try await sharedBytes(setting, numbers) <= SharedValues.bytesMax)
      for number in numbers {
        try await waitForEvents(1, of: number, setting)
        #expect(try await !setting.isShared(number))
      }
    }
  }

  @Test func `a client whose values grow leaves the shared hub with the commit after`() async throws
  {
    try await withOwnHubSetting { setting in
      try await setting.write(value: Node("small"))
      let small = try await setting.open(1, network: Self.network)
      let many = try await setting.open(32, network: Self.network)
      #expect(try await setting.isShared(many))
      try await setting.giveTurns()
      try await setting.write(value: Node(Self.text))
      try await setting.giveTurns()
      let before = try await setting.sharedBytes(many)
      #expect(before > SharedValues.bytesMax)
      try await setting.write(value: Node(Self.text + "y"))
      try await setting.giveTurns()
      #expect(try await setting.sharedBytes(many) == before)
      #expect(try await !setting.isShared(many))
      // The other connection of the network has room for its value.
      #expect(try await setting.isShared(small))
      try await waitForEvents(2, of: many, setting)
    }
  }

  @Test(arguments: [EventForm.child, .sync])
  func `a client that gets large changes leaves the shared hub`(_ form: EventForm) async throws {
    try await withOwnHubSetting { setting in
      try await setting.write(value: Node("small"))
      let many = try await setting.open(32, network: Self.network, form: form)
      let one = try await setting.open(1, network: "192.0.2.2", form: form)
      try await setting.giveTurns()
      // Many changes have more bytes than the bound together.
      try await setting.write(value: Node(Self.text))
      try await setting.giveTurns()
      let before = try await setting.sharedBytes(many)
      #expect(before > SharedValues.bytesMax)
      #expect(try await !setting.isShared(many))
      #expect(try await setting.isShared(one))
      try await setting.write(value: Node(Self.text + "y"))
      try await setting.giveTurns()
      #expect(try await setting.sharedBytes(many) == before)
      try await waitForEvents(2, of: many, setting)
      // A single change has more bytes than a value may have there.
      try await setting.write(
        value: Node(String(repeating: "x", count: Limits().wholeReplyBytesMax)))
      // Another thread may make the event.
      try await eventually {
        try await setting.giveTurns()
        return try await !setting.isShared(one)
      }
      try await waitForEvents(3, of: many, setting)
    }
  }

  @Test func `a query that many connections of a network have counts once`() async throws {
    try await withOwnHubSetting { setting in
      try await setting.write(value: Node(Self.text))
      var numbers: [Int] = []
      for _ in 0..<20 { numbers.append(try await setting.open(1, network: Self.network)) }
      try await setting.giveTurns()
      try await setting.write(value: Node(Self.text + "y"))
      try await setting.giveTurns()
      for number in numbers { #expect(try await setting.isShared(number)) }
      // Each of these has that query and eighteen others.
      let first = try await setting.open(19, network: Self.network)
      #expect(try await setting.isShared(first))
      let second = try await setting.open(20, network: Self.network)
      #expect(try await !setting.isShared(second))
      #expect(try await setting.isShared(first))
    }
  }

  @Test func `values of subscriptions that have ended do not count`() async throws {
    try await withOwnHubSetting { setting in
      try await setting.write(value: Node(Self.text))
      for _ in 0..<3 {
        let number = try await setting.open(15, network: Self.network)
        #expect(try await setting.isShared(number))
        try await setting.giveTurns()
        try await setting.onLoop(number) { $0.endAll() }
      }
      // Nor do those of connections that have left.
      let many = try await setting.open(EventHubs.connectionMax + 1, network: Self.network)
      #expect(try await !setting.isShared(many))
      let next = try await setting.open(15, network: Self.network)
      #expect(try await setting.isShared(next))
    }
  }
}
