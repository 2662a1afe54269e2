import CanopyAccounts
import CanopyTesting
import Dispatch
import Synchronization
import Testing

@testable import CanopyClient

/// A removal takes effect before it returns, even while another thread uses the state of the database.
@Suite(.timeLimit(.minutes(20))) struct ObserverRemovalTests {
  /// The ways to remove an observer.
  enum Way: CaseIterable {
    case handle, all, query
  }

  /// A list that observes on the main actor and removes its observer at the fifth event.
  @MainActor private final class List {
    let seen = Received<String>()
    nonisolated init() {}
    private var handle: DatabaseHandle?

    func observe(_ place: DatabaseQuery, _ way: Way, while isBusy: Busy) {
      handle = place.observe(
        .childAdded,
        with: { snapshot in
          self.seen.add(snapshot.key)
          guard self.seen.values.count == 5 else { return }
          isBusy.begin(place.database)
          switch way {
          case .handle: place.removeObserver(withHandle: self.handle ?? 0)
          case .all: place.ref.removeAllObservers()
          case .query: place.removeAllObservers()
          }
        })
    }
  }

  /// Another thread's use of a database's state.
  private final class Busy: Sendable {
    private let end = DispatchSemaphore(value: 0)

    /// Begins the use, and returns when it has begun.
    func begin(_ database: Database) {
      let begun = DispatchSemaphore(value: 0)
      DispatchQueue(label: "busy").async { [end] in
        database.repository.use { _ in
          begun.signal()
          end.wait()
        }
      }
      begun.wait()
    }

    func finish() { end.signal() }
  }

  private static func write(_ count: Int, to place: DatabaseReference) {
    for number in 10..<10 + count { place.child("\(number)").setValue(number) }
  }

  /// Returns once all earlier calls on the main actor have run.
  private func pass(_ database: Database) async {
    await withCheckedContinuation { done in DispatchQueue.main.async { done.resume() } }
    await withCheckedContinuation { done in database.callbackQueue.async { done.resume() } }
  }

  @Test(arguments: Way.allCases)
  func `an observer that removes itself in its own call is not called again`(_ way: Way)
    async throws
  {
    try await withBackend { backend in
      let database = try backend.anonymousClient()
      database.goOffline()
      let place = database.reference(withPath: "list")
      Self.write(20, to: place)
      let busy = Busy()
      let list = List()
      await list.observe(place.queryLimited(toFirst: 20), way, while: busy)
      await list.seen.wait(for: 5)
      await pass(database)
      busy.finish()
      await withCheckedContinuation { done in database.repository.use { _ in done.resume() } }
      await pass(database)
      #expect(list.seen.values == (10..<15).map { "\($0)" })
      // The state has stopped to listen too.
      await withCheckedContinuation { done in
        database.repository.use { state in
          #expect(state.registrations.isEmpty)
          done.resume()
        }
      }
    }
  }

  @MainActor private final class Screen {
    let seen = Received<Bool>()
    nonisolated init() {}
    private(set) var isShown = true

    /// Observes a value, and whether the connection is ready.
    func appear(_ database: Database) -> [(DatabaseQuery, DatabaseHandle)] {
      let places = [
        database.reference(withPath: "a"), database.reference(withPath: ".info/connected"),
      ]
      return places.map { place in
        (place, place.observe(.value, with: { _ in self.seen.add(self.isShown) }))
      }
    }

    func disappear(_ observers: [(DatabaseQuery, DatabaseHandle)]) {
      for (query, handle) in observers { query.removeObserver(withHandle: handle) }
      isShown = false
    }
  }

  @Test func `an observer that its actor removes elsewhere is not called again`() async throws {
    try await withBackend { backend in
      let database = try backend.anonymousClient()
      database.goOffline()
      let busy = Busy()
      let screen = Screen()
      let observers = await screen.appear(database)
      let place = database.reference(withPath: "a")
      Self.write(20, to: place)
      await Task { @MainActor in
        // The call for this is on its way to the main actor.
        Self.write(21, to: place)
        busy.begin(database)
        screen.disappear(observers)
      }.value
      await pass(database)
      busy.finish()
      await withCheckedContinuation { done in database.repository.use { _ in done.resume() } }
      await pass(database)
      #expect(screen.seen.values.allSatisfy { $0 })
    }
  }

  @Test func `an observer that is removed before the state has added it is never called`()
    async throws
  {
    try await withBackend { backend in
      let database = try backend.anonymousClient()
      database.goOffline()
      let place = database.reference(withPath: "a")
      Self.write(1, to: place)
      let busy = Busy()
      busy.begin(database)
      let seen = Received<String>()
      let handle = place.observe(.value, with: { seen.add($0.text) })
      let waiting = Task { try await place.observeSingleEventAndPreviousSiblingKey(of: .value) }
      place.removeObserver(withHandle: handle)
      waiting.cancel()
      await #expect(throws: CancellationError.self) { try await waiting.value }
      busy.finish()
      await withCheckedContinuation { done in
        database.repository.use { state in
          #expect(state.registrations.isEmpty)
          done.resume()
        }
      }
      await pass(database)
      #expect(seen.values.isEmpty)
    }
  }

  @Test func `a listener of the session that removes itself is not called again`() async throws {
    try await withBackend { backend in
      let database = try backend.anonymousClient()
      let auth = Auth.auth(database: database)
      let seen = Received<String?>()
      let handle = Mutex<AuthStateDidChangeListenerHandle?>(nil)
      // Calls are on their way, but none has begun.
      database.callbackQueue.suspend()
      handle.withLock {
        $0 = auth.addStateDidChangeListener { auth, user in
          seen.add(user?.uid)
          if let own = handle.withLock({ $0 }) { auth.removeStateDidChangeListener(own) }
        }
      }
      try await auth.signIn(withAdministratorToken: backend.parts.administratorToken.text)
      await withCheckedContinuation { done in database.repository.use { _ in done.resume() } }
      database.callbackQueue.resume()
      await pass(database)
      #expect(seen.values.count == 1)
    }
  }
}
