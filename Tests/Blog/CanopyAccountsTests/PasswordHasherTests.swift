import CanopyAccounts
import CanopyTesting
import Testing

@Suite(.timeLimit(.minutes(20))) struct PasswordHasherTests {
  private let function = GatedHash()
  private static let salt = [UInt8](repeating: 0, count: 16)

  private func submit(
    _ password: UInt8, to hasher: PasswordHasher, for network: RemoteNetwork = .local
  ) -> Task<PasswordHash, any Error> {
    Task {
      try await hasher.hash([password], salt: Self.salt, parameters: .cheapest, for: network)
    }
  }

  /// Waits until the hasher has a load. After the test's time limit it releases every held hash.
  private func until(_ hasher: PasswordHasher, running: Int, waiting: Int) async {
    let load = PasswordHasher.Load(running: running, waiting: waiting)
    do { try await eventually { hasher.load == load } } catch {
      Issue.record("the hasher has \(hasher.load), not \(load)")
      function.release(1_000)
    }
  }

  @Test func `at most N hashes run at once, and the others follow in order`() async throws {
    let hasher = PasswordHasher(function: function, concurrentMax: 3, waitingMax: 10)
    var tasks: [Task<PasswordHash, any Error>] = []
    for number in 0..<13 {
      tasks.append(submit(UInt8(number), to: hasher))
      await until(hasher, running: min(3, number + 1), waiting: max(0, number - 2))
    }
    await #expect(throws: AccountError.overloaded) {
      _ = try await hasher.hash([99], salt: Self.salt, parameters: .cheapest)
    }

    var started = function.started.makeAsyncIterator()
    var order: [UInt8] = []
    for _ in 0..<3 { order.append(try #require(await started.next())) }
    #expect(order.sorted() == [0, 1, 2])
    for number in UInt8(3)..<13 {
      function.release()
      #expect(await started.next() == number)
    }
    function.release(3)
    for task in tasks { _ = try await task.value }
    #expect(function.runningMax == 3)
    await until(hasher, running: 0, waiting: 0)
  }

  @Test func `tasks still run while more hashes than cores are blocked`() async throws {
    let hasher = PasswordHasher(function: function, concurrentMax: 16)
    let tasks = (0..<16).map { submit(UInt8($0), to: hasher) }
    await until(hasher, running: 16, waiting: 0)
    var started = function.started.makeAsyncIterator()
    for _ in 0..<16 { _ = await started.next() }
    #expect(await Task { 6 * 7 }.value == 42)
    function.release(16)
    for task in tasks { _ = try await task.value }
    #expect(function.runningMax == 16)
  }

  @Test func `a network with many hashes delays another network by one hash`() async throws {
    let hasher = PasswordHasher(
      function: function, concurrentMax: 1, waitingMax: 8, waitingPerNetworkMax: 4)
    let (greedy, honest) = (RemoteNetwork("192.0.2.1"), RemoteNetwork("192.0.2.2"))
    var tasks = [submit(0, to: hasher, for: greedy)]
    await until(hasher, running: 1, waiting: 0)
    for number in UInt8(1)...4 {
      tasks.append(submit(number, to: hasher, for: greedy))
      await until(hasher, running: 1, waiting: Int(number))
    }
    for _ in 0..<75 {
      await #expect(throws: AccountError.overloaded) {
        _ = try await hasher.hash([99], salt: Self.salt, parameters: .cheapest, for: greedy)
      }
    }
    tasks.append(submit(50, to: hasher, for: honest))
    await until(hasher, running: 1, waiting: 5)

    var started = function.started.makeAsyncIterator()
    var order: [UInt8] = []
    for _ in 0..<6 {
      order.append(try #require(await started.next()))
      function.release()
    }
    #expect(order == [0, 1, 50, 2, 3, 4])
    for task in tasks { _ = try await task.value }
  }

  @Test func `in a full queue, a network with fewer hashes gets a place`() async throws {
    let hasher = PasswordHasher(
      function: function, concurrentMax: 1, waitingMax: 2, waitingPerNetworkMax: 2)
    let held = submit(0, to: hasher)
    await until(hasher, running: 1, waiting: 0)
    let first = submit(1, to: hasher, for: .ipv4(1))
    await until(hasher, running: 1, waiting: 1)
    let second = submit(2, to: hasher, for: .ipv4(1))
    await until(hasher, running: 1, waiting: 2)
    let honest = submit(3, to: hasher, for: .ipv4(2))
    await #expect(throws: AccountError.overloaded) { _ = try await second.value }
    #expect(hasher.load.waiting == 2)
    await #expect(throws: AccountError.overloaded, "all have one") {
      _ = try await hasher.hash([4], salt: Self.salt, parameters: .cheapest, for: .ipv4(3))
    }
    function.release(3)
    for task in [held, first, honest] { _ = try await task.value }
  }

  @Test func `a cancelled caller leaves the queue`() async throws {
    let hasher = PasswordHasher(function: function, concurrentMax: 1, waitingMax: 1)
    let held = submit(1, to: hasher)
    await until(hasher, running: 1, waiting: 0)
    let waiting = submit(2, to: hasher)
    await until(hasher, running: 1, waiting: 1)
    waiting.cancel()
    await #expect(throws: CancellationError.self) { _ = try await waiting.value }
    #expect(hasher.load.waiting == 0)

    let next = submit(3, to: hasher)
    await until(hasher, running: 1, waiting: 1)
    function.release(2)
    _ = try await held.value
    _ = try await next.value
    var started = function.started.makeAsyncIterator()
    #expect(await started.next() == 1)
    #expect(await started.next() == 3)
  }

  @Test func `a caller that is already cancelled does not wait`() async throws {
    let hasher = PasswordHasher(function: function, concurrentMax: 1, waitingMax: 1)
    let held = submit(1, to: hasher)
    await until(hasher, running: 1, waiting: 0)
    let late = Task {
      withUnsafeCurrentTask { $0?.cancel() }
      return try await hasher.hash([2], salt: Self.salt, parameters: .cheapest)
    }
    await #expect(throws: CancellationError.self) { _ = try await late.value }
    #expect(hasher.load.waiting == 0)
    function.release()
    _ = try await held.value
  }

  @Test func `a running hash is completed if its caller is cancelled`() async throws {
    let hasher = PasswordHasher(function: function, concurrentMax: 1, waitingMax: 0)
    let held = submit(1, to: hasher)
    await until(hasher, running: 1, waiting: 0)
    held.cancel()
    function.release()
    _ = try await held.value
  }

  @Test func `a caller with a result finds the slot free`() async throws {
    let hasher = PasswordHasher(function: CountingHash(), concurrentMax: 1, waitingMax: 0)
    for number in UInt8(0)..<200 {
      _ = try await hasher.hash([number], salt: Self.salt, parameters: .cheapest)
    }
  }

  @Test func `the caller gets an error of the function, and the slot is free`() async throws {
    let failing = CountingHash()
    let hasher = PasswordHasher(function: failing, concurrentMax: 1, waitingMax: 0)
    failing.fail(true)
    await #expect(throws: AccountError.hashingFailed) {
      _ = try await hasher.hash([1], salt: Self.salt, parameters: .cheapest)
    }
    failing.fail(false)
    _ = try await hasher.hash([1], salt: Self.salt, parameters: .cheapest)
  }
}
