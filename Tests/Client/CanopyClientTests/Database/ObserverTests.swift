import CanopyClient
import CanopyTesting
import CanopyTree
import Foundation
import Synchronization
import Testing

/// Observers: adding, removing, captured objects, and invalid queries.
@Suite(.timeLimit(.minutes(20))) struct ObserverTests {
  @Test(arguments: WireKind.allCases)
  func `observers are removed by handle or by location, without those below`(_ kind: WireKind)
    async throws
  {
    try await withBackend(over: kind) { backend in
      let database = try await backend.client()
      let place = database.reference(withPath: "a")
      let reported = Received<String>()
      let first = place.observe(.value, with: { _ in reported.add("first") })
      place.observe(.value, with: { _ in reported.add("second") })
      place.queryLimited(toLast: 1).observe(.value, with: { _ in reported.add("query") })
      place.child("b").observe(.value, with: { _ in reported.add("below") })
      await reported.wait(for: 4)
      // A handle is valid at its own location only.
      place.child("b").removeObserver(withHandle: first)
      try await place.child("b").setValue(1)
      await reported.wait(for: 8)
      #expect(Set(reported.values.dropFirst(4)) == ["first", "second", "query", "below"])
      place.removeObserver(withHandle: first)
      place.removeObserver(withHandle: first)
      try await place.child("b").setValue(2)
      await reported.wait(for: 11)
      #expect(Set(reported.values.dropFirst(8)) == ["second", "query", "below"])
      place.removeAllObservers()
      try await place.child("b").setValue(3)
      await reported.wait(for: 12)
      #expect(reported.values.dropFirst(11) == ["below"])
    }
  }

  /// An object that an application's function captures.
  private final class Counted: Sendable {
    static let living = Atomic(0)

    init() { Counted.living.add(1, ordering: .relaxed) }
    deinit { Counted.living.subtract(1, ordering: .relaxed) }

    static var count: Int { living.load(ordering: .relaxed) }
  }

  // One at a time: the cases count the same objects.
  @Test(.serialized, arguments: WireKind.allCases)
  func `removed observers and a released database hold no memory`(_ kind: WireKind) async throws {
    try await withBackend(over: kind) { backend in
      weak var released: Database?
      func useOne() async throws {
        let database = try await backend.client()
        released = database
        let place = database.reference(withPath: "a")
        var handles: [DatabaseHandle] = []
        let reported = Received<Int>()
        for number in 0..<50 {
          let held = Counted()
          handles.append(
            place.observe(.value, with: { _ in reported.add(held === held ? number : 0) }))
          place.child("n\(number)").observe(.childAdded, with: { _ in _ = held })
          place.observeSingleEvent(of: .value, with: { _ in _ = held })
          place.child("n\(number)").setValue(number) { _, _ in _ = held }
          place.child("t\(number)").runTransactionBlock(
            { data in
              _ = held
              return .abort()
            }, andCompletionBlock: { _, _, _ in _ = held })
        }
        await reported.wait(for: 50)
        _ = try await place.getData()
        #expect(Counted.count == 50)
        for handle in handles { place.removeObserver(withHandle: handle) }
        for number in 0..<50 { place.child("n\(number)").removeAllObservers() }
        let values = place.values
        let iteration = Task { for try await _ in values {} }
        iteration.cancel()
        _ = await iteration.result
      }
      try await useOne()
      try await eventually { Counted.count == 0 && released == nil }
      #expect(Counted.count == 0)
    }
  }

  @Test(arguments: WireKind.allCases)
  func `an observer of a forbidden location is cancelled without events`(_ kind: WireKind)
    async throws
  {
    try await withBackend(over: kind) { backend in
      let database = try backend.anonymousClient()
      let reported = Received<String>()
      database.reference(withPath: "secret").observe(
        .value, with: { _ in reported.add("value") },
        withCancel: { reported.add((($0 as? DatabaseError)?.code).map(\.rawValue) ?? "\($0)") })
      #expect(await reported.wait(for: 1) == ["permissionDenied"])
      await #expect(throws: DatabaseError.self) {
        try await database.reference(withPath: "secret").getData()
      }
      await #expect(throws: DatabaseError.self) {
        for try await _ in database.reference(withPath: "secret").values {}
      }
    }
  }

  @Test func `an invalid reference or query fails in every operation`() async throws {
    try await withBackend { backend in
      let database = try await backend.client()
      let root = database.reference()
      let deep = Array(repeating: "k", count: Limits.depthMax + 1).joined(separator: "/")
      for path in ["a.b", "a$", "#", "a[0]", "x]", "a\u{0}b", deep] {
        for place in [
          root.child(path), database.reference(withPath: path), root.child(path).child("b"),
        ] {
          let error = await #expect(throws: DatabaseError.self, "\(path)") {
            try await place.setValue(1)
          }
          #expect(error?.code == .invalidPath)
          await #expect(throws: DatabaseError.self) { try await place.getData() }
          await #expect(throws: DatabaseError.self) {
            try await place.runTransactionBlock { .success(withValue: $0) }
          }
          await #expect(throws: DatabaseError.self) { try await place.onDisconnectRemoveValue() }
        }
      }
      await #expect(throws: DatabaseError.self) { try await root.child("a").setValue(Double.nan) }
      await #expect(throws: DatabaseError.self) { try await root.updateChildValues(["a.b": 1]) }
      await #expect(throws: DatabaseError.self) {
        try await root.updateChildValues(["a": 1, "a/b": 2])
      }
      await #expect(throws: DatabaseError.self) { try await root.updateChildValues([1: 1]) }
      await #expect(throws: DatabaseError.self) { try await root.setPriority(true) }
      await #expect(throws: DatabaseError.self) {
        try await database.reference(withPath: ".info/connected").setValue(true)
      }
      let list = root.child("list")
      for query in [
        list.queryOrderedByKey().queryOrderedByValue(), list.queryOrdered(byChild: ""),
        list.queryOrdered(byChild: "$value"), list.queryOrdered(byChild: "a.b"),
        list.queryOrderedByKey().queryStarting(atValue: 3), list.queryLimited(toFirst: 0),
        list.queryLimited(toFirst: 1).queryLimited(toLast: 1),
        list.queryStarting(atValue: ["a": 1]),
        list.queryEqual(toValue: 1).queryEnding(atValue: 2), list.queryLimited(toLast: .max),
        list.queryStarting(atValue: CanopyClient.ServerValue.timestamp()),
      ] {
        let error = await #expect(throws: DatabaseError.self) { try await query.getData() }
        #expect(error?.code == .invalidQuery)
        let reported = Received<String>()
        query.observe(
          .value, with: { _ in reported.add("value") },
          withCancel: { reported.add((($0 as? DatabaseError)?.code).map(\.rawValue) ?? "") })
        #expect(await reported.wait(for: 1) == ["invalidQuery"])
      }
      let tooLong = String(repeating: "x", count: Limits().lineBytesMax)
      let error = await #expect(throws: DatabaseError.self) { try await list.setValue(tooLong) }
      #expect(error?.code == .tooLarge)
      // The connection has survived.
      try await list.setValue("fine")
      #expect(backend.root == json(#"{"list":"fine"}"#))
      let nowhere = Database.database(url: "nonsense").reference()
      let invalid = await #expect(throws: DatabaseError.self) {
        try await nowhere.child("a").getData()
      }
      #expect(invalid?.code == .invalidURL)
      let auth = Auth.auth(database: nowhere.database)
      let failure = await #expect(throws: AuthError.self) {
        try await auth.signIn(withEmail: "ada@example.org", password: "secret words of ada")
      }
      #expect(failure?.sentence == invalid?.sentence)
      let nobody = try Auth.auth(database: backend.anonymousClient())
      let unnamed = await #expect(throws: AuthError.self) {
        try await nobody.updateDisplayName("ada")
      }
      #expect(unnamed?.code == .noCurrentUser)
      let log = LineLog()
      let logging = try backend.anonymousClient { $0.logger = log.logger }
      logging.reference(withPath: "a.b").keepSynced(true)
      let warnings = log.lines.filter { $0.hasPrefix("warning nothing is kept synchronized") }
      #expect(warnings.count == 1)
    }
  }

  @Test func `a waiting caller learns of a removal or a cancellation`() async throws {
    try await withBackend { backend in
      let database = try backend.anonymousClient()
      database.goOffline()
      let place = database.reference(withPath: "a")
      let waiting = Task { try await place.observeSingleEventAndPreviousSiblingKey(of: .value) }
      let values = Task {
        var count = 0
        for try await _ in place.queryLimited(toLast: 1).values { count += 1 }
        return count
      }
      let events = place.events()
      let listening = Task {
        for try await _ in events {}
        return true
      }
      let cancelled = Task {
        try await database.reference(withPath: "b")
          .observeSingleEventAndPreviousSiblingKey(of: .value)
      }
      cancelled.cancel()
      await #expect(throws: CancellationError.self) { try await cancelled.value }
      // Those that have not started to wait are removed in a later round.
      let done = Received<Bool>()
      Task {
        await #expect(throws: CancellationError.self) { try await waiting.value }
        #expect(await (try? values.value) == 0)
        #expect(await (try? listening.value) == true)
        done.add(true)
      }
      while done.values.isEmpty {
        place.removeAllObservers()
        await Task.yield()
      }
    }
  }

  @Test(arguments: WireKind.allCases) func `the state of the connection is below the root`(
    _ kind: WireKind
  ) async throws {
    try await withBackend(over: kind) { backend in
      let database = try await backend.client()
      let connected = database.reference().child(".info/connected")
      #expect(connected == database.reference(withPath: "/.info/connected"))
      #expect(connected.parent == database.reference().child(".info"))
      #expect(try await connected.getData().value as? Bool == true)
      let error = await #expect(throws: DatabaseError.self) { try await connected.setValue(false) }
      #expect(error?.code == .invalidPath)
      let elsewhere = database.reference(withPath: "a").child(".info/connected")
      await #expect(throws: DatabaseError.self) { try await elsewhere.getData() }
    }
  }

  @Test(arguments: WireKind.allCases) func `queries order and limit, and windows slide`(
    _ kind: WireKind
  ) async throws {
    try await withBackend(over: kind) { backend in
      let list = try await backend.client().reference(withPath: "list")
      try await list.setValue(["a": ["n": 3], "b": ["n": 1], "c": ["n": 2]])
      func keys(_ query: DatabaseQuery) async throws -> [String] {
        try await query.getData().childSnapshots.map(\.key)
      }
      let byNumber = list.queryOrdered(byChild: "n")
      #expect(try await keys(byNumber) == ["b", "c", "a"])
      #expect(try await keys(byNumber.queryStarting(atValue: 2)) == ["c", "a"])
      #expect(try await keys(byNumber.queryStarting(afterValue: 2)) == ["a"])
      #expect(try await keys(byNumber.queryEnding(beforeValue: 2)) == ["b"])
      #expect(try await keys(byNumber.queryEqual(toValue: 2)) == ["c"])
      #expect(try await keys(list.queryOrderedByKey().queryEnding(atValue: "b")) == ["a", "b"])
      #expect(try await keys(byNumber.queryLimited(toLast: 2)) == ["c", "a"])
      let reported = Received<String>()
      let window = byNumber.queryLimited(toLast: 2)
      window.observe(
        .childAdded, andPreviousSiblingKeyWith: { reported.add("+\($0.key) after \($1 ?? "none")") }
      )
      window.observe(.childRemoved, with: { reported.add("-\($0.key)") })
      window.observe(.childMoved, with: { reported.add("\($0.key) moved") })
      await reported.wait(for: 2)
      try await list.child("d").setValue(["n": 9])
      try await list.child("c/n").setValue(10)
      await reported.wait(for: 4)
      #expect(
        Array(reported.values.prefix(4)) == ["+c after none", "+a after c", "-c", "+d after a"])
    }
  }

  @Test func `a transaction is aborted, hidden until committed, and followed by a write`()
    async throws
  {
    try await withBackend { backend in
      let database = try await backend.client()
      let place = database.reference(withPath: "n")
      let (isCommitted, snapshot) = try await place.runTransactionBlock { _ in .abort() }
      #expect(!isCommitted && !snapshot.exists())
      let reported = Received<String>()
      place.observe(.value, with: { reported.add($0.text) })
      await reported.wait(for: 1)
      database.goOffline()
      place.runTransactionBlock(
        { data in
          data.value = "hidden"
          return .success(withValue: data)
        },
        andCompletionBlock: { error, _, _ in
          reported.add((error as? DatabaseError)?.code.rawValue ?? "committed")
        }, withLocalEvents: false)
      place.setValue("plain") { _, _ in reported.add("saved") }
      await reported.wait(for: 2)
      database.goOnline()
      #expect(await reported.wait(for: 4) == ["nothing", "plain", "committed", "saved"])
      #expect(try backend.node("n") == "plain")
      await #expect(throws: DatabaseError.self) {
        try await place.runTransactionBlock { data in
          data.value = Double.nan
          return .success(withValue: data)
        }
      }
    }
  }
}
