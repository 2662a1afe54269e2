public import CanopyAccounts
import Testing

/// Checks that two nodes count the failures of logins together. The waits are by the clock of the store.
public func verifyContract(of a: any LoginAttempts, and b: any LoginAttempts) async throws {
  let hour: Int64 = 3_600_000
  let waits = LoginWaits(failuresMax: 3, first: hour, max: 2 * hour)
  let (ada, bob): ([UInt8], [UInt8]) = ([0, 97], [1, 97])
  #expect(try await a.begin(ada, waits) == nil)
  #expect(try await b.begin(ada, waits) == nil)
  #expect(try await a.begin(ada, waits) == nil)
  for node in [a, b] {
    let wait = try #require(try await node.begin(ada, waits))
    #expect(wait > hour / 2 && wait <= hour, "a refusal does not extend the wait")
  }
  #expect(try await b.begin(bob, waits) == nil, "other keys need not wait")

  // An attempt that was taken back is one more, and the failure after it begins the same wait again.
  try await b.withdraw(ada)
  #expect(try await a.begin(ada, waits) == nil)
  #expect(try #require(try await b.begin(ada, waits)) <= hour)
  try await a.forget(ada)
  for _ in 0..<3 { #expect(try await b.begin(ada, waits) == nil) }
  #expect(try await a.begin(ada, waits) != nil)
  try await a.forget(ada)
  try await a.forget(ada)
  try await b.withdraw(ada)

  // Each failure after a wait doubles the next one, up to the longest.
  let short = LoginWaits(failuresMax: 1, first: 1, max: 1)
  for _ in 0..<2 { try await eventually { try await a.begin(ada, short) == nil } }
  let long = LoginWaits(failuresMax: 2, first: hour, max: 100 * hour)
  try await eventually { try await b.begin(ada, long) == nil }
  let doubled = try #require(try await a.begin(ada, long))
  #expect(doubled > hour && doubled <= 2 * hour)
  try await a.forget(ada)
  let endless = LoginWaits(failuresMax: 1, first: .max, max: .max)
  #expect(try await a.begin(ada, endless) == nil)
  #expect(try #require(try await b.begin(ada, endless)) > 1_000_000 * hour)
  try await b.forget(ada)

  // All keys with a prefix are forgotten, and no others.
  let keys: [[UInt8]] = [
    [2, 97, 255], [2, 97, 255, 0], [2, 97, 255, 255, 255], [2, 97], [2, 98],
  ]
  let once = LoginWaits(failuresMax: 1, first: hour, max: hour)
  for key in keys { #expect(try await a.begin(key, once) == nil) }
  try await b.forget(startingWith: [2, 97, 255])
  for (index, key) in keys.enumerated() {
    #expect(try await (a.begin(key, once) == nil) == (index < 3), "\(key)")
    try await a.forget(key)
  }

  // Twenty attempts begin at once. As many are admitted as may fail without a wait.
  let admitted = try await withThrowingTaskGroup(of: Bool.self) { group in
    for number in 0..<20 {
      group.addTask { try await (number % 2 == 0 ? a : b).begin(ada, waits) == nil }
    }
    return try await group.reduce(into: 0) { $0 += $1 ? 1 : 0 }
  }
  #expect(admitted == 3)
}
