import CanopyClient
import Dispatch
import Testing

/// The application's functions run on the actor whose state they use, whatever the callback queue is.
@Suite(.timeLimit(.minutes(20))) struct IsolationTests {
  /// A type of the main actor, as the controllers of views are.
  @MainActor private final class Screen {
    /// A mark of the main queue, which another thread than the first may serve.
    private static let onMain = DispatchSpecificKey<Bool>()
    private var shown: [String] = []
    let reported = Received<String>()

    init() {
      DispatchQueue.main.setSpecific(key: Self.onMain, value: true)
    }

    private func show(_ text: String) {
      shown.append(text)
      reported.add(
        "\(text) \(DispatchQueue.getSpecific(key: Self.onMain) == true ? "main" : "elsewhere")")
    }

    func appear(_ place: DatabaseReference) {
      place.observe(.value, with: { snapshot in self.show("value \(snapshot.value ?? "")") })
      place.observe(
        .childAdded, andPreviousSiblingKeyWith: { _, _ in self.show("child") },
        withCancel: { _ in self.show("cancel") })
    }

    func refuse(_ place: DatabaseReference) {
      place.observeSingleEvent(
        of: .value, with: { _ in self.show("value") }, withCancel: { _ in self.show("cancelled") })
    }

    func write(_ place: DatabaseReference) {
      place.setValue(1) { _, _ in self.show("set") }
      place.onDisconnectRemoveValue { _, _ in self.show("registered") }
      place.runTransactionBlock(
        {
          $0.value = 2; return .success(withValue: $0)
        },
        andCompletionBlock: { _, isCommitted, _ in self.show("committed \(isCommitted)") })
      place.getData { _, snapshot in self.show("read \(snapshot?.value ?? "")") }
    }

    func listen(_ auth: Auth) {
      auth.addStateDidChangeListener { _, user in self.show(user == nil ? "nobody" : "user") }
      auth.signIn(withEmail: "x", password: "y") { _, error in
        self.show(error == nil ? "in" : "failed")
      }
    }
  }

  @Test func `functions of a type of the main actor run on the main actor`() async throws {
    try await withBackend { backend in
      // The callback queue of these clients is not the main queue.
      let database = try await backend.client()
      let place = database.reference(withPath: "a")
      let screen = await Screen()
      let reported = screen.reported
      await screen.appear(place)
      await reported.wait(for: 1)
      await screen.write(place)
      await screen.refuse(try backend.anonymousClient().reference(withPath: "secret"))
      await screen.listen(Auth.auth(database: try backend.anonymousClient()))
      await reported.wait { values in
        ["set", "registered", "committed true", "read 2", "cancelled", "nobody", "failed"]
          .allSatisfy { text in values.contains { $0.hasPrefix(text) } }
      }
      #expect(reported.values.allSatisfy { $0.hasSuffix(" main") }, "\(reported.values)")
    }
  }

  /// An actor with unprotected state of its own.
  private actor Counter {
    private var seen: [Int] = []
    let reported = Received<Int>()

    func watch(_ place: DatabaseReference) {
      place.observe(
        .value,
        with: { snapshot in
          self.assertIsolated()
          self.seen.append(snapshot.value as? Int ?? -1)
          self.reported.add(self.seen.count)
        })
    }

    var values: [Int] { seen }
  }

  /// Writes numbers without waiting.
  private func write(_ count: Int, to place: DatabaseReference) {
    for number in 0..<count { place.setValue(number) }
  }

  @Test func `functions of an actor run on it, in order`() async throws {
    try await withBackend { backend in
      let place = try await backend.client().reference(withPath: "a")
      let counter = Counter()
      await counter.watch(place)
      await counter.reported.wait(for: 1)
      write(200, to: place)
      await counter.reported.wait(for: 201)
      #expect(await counter.values == [-1] + Array(0..<200))
    }
  }

  @Test func `a function without an actor runs on the callback queue`() async throws {
    try await withBackend { backend in
      let database = try await backend.client()
      let key = DispatchSpecificKey<Int>()
      database.callbackQueue.setSpecific(key: key, value: 7)
      let reported = Received<Int?>()
      database.reference(withPath: "a").observe(
        .value, with: { _ in reported.add(DispatchQueue.getSpecific(key: key)) })
      #expect(await reported.wait(for: 1) == [7])
    }
  }

  // `Callback` casts between these types. The tests above call the results of its casts.
  @Test func `a function that carries its actor has the layout of one that does not`() {
    typealias One<T> = (
      carrying: @Sendable @isolated(any) (T) -> Void, plain: @Sendable (T) -> Void
    )
    typealias Three = (
      carrying: @Sendable @isolated(any) (Int, Bool, String?) -> Void,
      plain: @Sendable (Int, Bool, String?) -> Void
    )
    #expect(MemoryLayout<One<Int>>.size == 2 * MemoryLayout<@Sendable (Int) -> Void>.size)
    #expect(MemoryLayout<One<String>>.stride == 2 * MemoryLayout<@Sendable (String) -> Void>.stride)
    #expect(
      MemoryLayout<Three>.size
        == 2 * MemoryLayout<@Sendable (Int, Bool, String?) -> Void>.size)
    #expect(MemoryLayout<@Sendable (Int) -> Void>.size == 2 * MemoryLayout<UnsafeRawPointer>.size)
  }
}
