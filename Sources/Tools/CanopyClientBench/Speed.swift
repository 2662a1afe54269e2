import ArgumentParser
import CanopyClient
import Dispatch
import Foundation
import Synchronization

/// A benchmark of the library itself: the time from a write to its local event, the time of a call that
/// writes offline, with and without persistence, and the time to send writes made offline.
struct Speed: AsyncParsableCommand {
  static let configuration = CommandConfiguration(abstract: "Measure the library's own cost.")

  @Option(help: "Writes whose local events are timed.")
  var writes = 20_000

  @Option(help: "Writes that are made offline and then sent.")
  var pending = 10_000

  func validate() throws {
    guard writes > 0, pending > 0 else {
      throw ValidationError("--writes and --pending must be 1 or more")
    }
  }

  func run() async throws {
    let server = try ServerProcess()
    defer { server.stop() }
    let database = try Database(url: "canopy://127.0.0.1:\(server.port)", options: .quiet)
    let queue = DispatchQueue(label: "callbacks", qos: .userInteractive)
    database.callbackQueue = queue
    try await Auth.auth(database: database).signIn(withAdministratorToken: server.token)
    let median = await localEvents(database)
    let flush = try await flush(database)
    print("setValue to local event: \(String(format: "%.1f", median)) µs (median of \(writes))")
    for isPersistent in [false, true] {
      let cost = try callCost(isPersistent: isPersistent)
      print(
        "setValue offline \(isPersistent ? "with" : "without") persistence: "
          + "\(String(format: "%.1f", cost)) µs (median of \(writes))")
    }
    print("\(pending) pending writes sent and acknowledged: \(String(format: "%.2f", flush)) s")
    if median >= 20 || flush >= 2 { throw ExitCode.failure }
  }

  /// Returns the median time from a call of `setValue` to its event, in microseconds, one write at
  /// a time.
  private func localEvents(_ database: Database) async -> Double {
    let place = database.reference(withPath: "speed/value")
    let clock = ContinuousClock()
    // Sleep while waiting: polling would take a processor from the measured code.
    let (arrivals, arrived) = AsyncStream.makeStream(of: (Int, ContinuousClock.Instant).self)
    place.observe(
      .value,
      with: { snapshot in
        let now = clock.now
        if let number = snapshot.value as? Int { arrived.yield((number, now)) }
      })
    var times: [Double] = []
    var arrival = arrivals.makeAsyncIterator()
    for number in 0..<writes {
      let start = clock.now
      set(place, number)
      while let (seen, at) = await arrival.next() {
        guard seen == number else { continue }
        times.append(start.duration(to: at) / .microseconds(1))
        break
      }
    }
    place.removeAllObservers()
    times.sort()
    return times[times.count / 2]
  }

  /// Returns the median time of a call of `setValue` without a connection, in microseconds.
  private func callCost(isPersistent: Bool) throws -> Double {
    let folder = NSTemporaryDirectory() + "canopy-speed-\(UUID().uuidString)"
    defer { try? FileManager.default.removeItem(atPath: folder) }
    var options = DatabaseOptions.quiet
    options.persistenceFolder = folder
    let database = try Database(url: "canopy://127.0.0.1:1", options: options)
    database.isPersistenceEnabled = isPersistent
    database.goOffline()
    let list = database.reference(withPath: "speed/list")
    let clock = ContinuousClock()
    var times: [Double] = []
    for number in 0..<writes {
      let place = list.child("n\(number)")
      let start = clock.now
      place.setValue(number)
      times.append(start.duration(to: clock.now) / .microseconds(1))
    }
    times.sort()
    return times[times.count / 2]
  }

  /// Writes without waiting. In an `async` function `setValue` would wait for the server.
  private func set(_ place: DatabaseReference, _ number: Int) { place.setValue(number) }

  private func flush(_ database: Database) async throws -> Double {
    database.goOffline()
    let list = database.reference(withPath: "speed/list")
    let left = Atomic(pending)
    let isDone = Mutex<CheckedContinuation<Void, Never>?>(nil)
    let failed = Atomic(0)
    for number in 0..<pending {
      list.child("n\(number)").setValue(["number": number, "text": "written offline"]) { error, _ in
        if error != nil { failed.add(1, ordering: .relaxed) }
        if left.subtract(1, ordering: .acquiringAndReleasing).newValue == 0 {
          isDone.withLock { $0.take() }?.resume()
        }
      }
    }
    let clock = ContinuousClock()
    let start = clock.now
    await withCheckedContinuation { continuation in
      isDone.withLock { $0 = continuation }
      database.goOnline()
    }
    let seconds = start.duration(to: clock.now) / .seconds(1)
    guard failed.load(ordering: .relaxed) == 0 else { throw BenchFailure("writes failed") }
    let count = try await list.getData().childrenCount
    guard count == pending else { throw BenchFailure("\(count) of \(pending) writes were made") }
    return seconds
  }
}
