import ArgumentParser
import CanopyClient
import Dispatch
import Foundation
import Synchronization

/// A benchmark of transactions: many at one observed location, all pending at once, without a conflict.
struct Transactions: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    abstract: "Run many transactions on one observed place, and count the calls of their functions."
  )

  @Option(help: "How many transactions.")
  var count = 400

  func validate() throws {
    guard count > 0 else { throw ValidationError("--count must be 1 or more") }
  }

  func run() async throws {
    let server = try ServerProcess()
    defer { server.stop() }
    let database = try Database(url: "canopy://127.0.0.1:\(server.port)", options: .quiet)
    database.callbackQueue = DispatchQueue(label: "callbacks", qos: .userInteractive)
    try await Auth.auth(database: database).signIn(withAdministratorToken: server.token)
    let place = database.reference(withPath: "transactions/n")
    place.keepSynced(true)
    _ = try await place.getData()
    let calls = Atomic(0)
    let committed = Atomic(0)
    let start = ContinuousClock.now
    await withCheckedContinuation { (done: CheckedContinuation<Void, Never>) in
      let left = Atomic(count)
      for _ in 0..<count {
        place.runTransactionBlock(
          { data in
            calls.add(1, ordering: .relaxed)
            data.value = (data.value as? Int ?? 0) + 1
            return .success(withValue: data)
          },
          andCompletionBlock: { _, isCommitted, _ in
            if isCommitted { committed.add(1, ordering: .relaxed) }
            if left.subtract(1, ordering: .acquiringAndReleasing).newValue == 0 { done.resume() }
          })
      }
    }
    let seconds = start.duration(to: .now) / .seconds(1)
    let value = try await place.getData().value as? Int ?? 0
    let (called, ended) = (
      calls.load(ordering: .relaxed), committed.load(ordering: .relaxed)
    )
    print(
      "\(count) transactions on one place: \(called) calls, \(ended) committed, "
        + "\(String(format: "%.3f", seconds)) s")
    guard value == count, ended == count else {
      throw BenchFailure("the value is \(value), not \(count)")
    }
    if called > count + count / 10 || seconds >= 0.2 { throw ExitCode.failure }
  }
}

/// A test of threads: each makes random writes, removals, updates, transactions and reads on one database, and a second
/// client ends with the same tree.
struct Threads: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    abstract: "Use one database from many threads, and compare the copies of two clients.")

  @Option(help: "How many threads.")
  var threads = 8

  @Option(help: "The operations of each thread.")
  var operations = 1_000

  func validate() throws {
    guard threads > 0, operations > 0 else {
      throw ValidationError("--threads and --operations must be 1 or more")
    }
  }

  func run() async throws {
    let server = try ServerProcess()
    defer { server.stop() }
    let databases = try (0..<2).map { _ in
      try Database(url: "canopy://127.0.0.1:\(server.port)", options: .quiet)
    }
    for database in databases {
      database.callbackQueue = DispatchQueue(label: "callbacks")
      try await Auth.auth(database: database).signIn(withAdministratorToken: server.token)
      database.reference(withPath: "threads").keepSynced(true)
    }
    let root = databases[0].reference(withPath: "threads")
    let left = Atomic(threads * operations)
    let start = ContinuousClock.now
    await withCheckedContinuation { (done: CheckedContinuation<Void, Never>) in
      let end: @Sendable () -> Void = {
        if left.subtract(1, ordering: .acquiringAndReleasing).newValue == 0 { done.resume() }
      }
      for number in 0..<threads {
        let operations = operations
        DispatchQueue(label: "thread \(number)").async {
          for _ in 0..<operations { Self.operate(root, end) }
        }
      }
    }
    let seconds = start.duration(to: .now) / .seconds(1)
    var copies: Set<String> = []
    for database in databases {
      copies.insert(canonical(try await database.reference(withPath: "threads").getData().value))
    }
    print(
      "\(threads) threads with \(operations) operations each: "
        + "\(copies.count == 1 ? "equal" : "different") trees, \(String(format: "%.2f", seconds)) s"
    )
    if copies.count != 1 { throw ExitCode.failure }
  }

  /// Starts a random operation; `end` is called when it has ended.
  private static func operate(_ root: DatabaseReference, _ end: @escaping @Sendable () -> Void) {
    let place = root.child("items/k\(Int.random(in: 0..<40))")
    let value = Int.random(in: 0..<1_000)
    switch Int.random(in: 0..<8) {
    case 0...2: place.setValue(["v": value]) { _, _ in end() }
    case 3: place.removeValue { _, _ in end() }
    case 4:
      root.updateChildValues(["items/k0/u": value, "count": ServerValue.increment(1)]) { _, _ in
        end()
      }
    case 5, 6:
      root.child("sum").runTransactionBlock(
        { data in
          data.value = (data.value as? Int ?? 0) + 1
          return .success(withValue: data)
        }, andCompletionBlock: { _, _, _ in end() })
    default: place.getData { _, _ in end() }
    }
  }
}
