import CanopyAccounts
import CanopyClient
import CanopyTesting
import CanopyTree
import Testing

@testable import CanopyClientBench

/// A short run of the tests in `Scripts/client-check`.
@Suite(.timeLimit(.minutes(20))) struct TormentTests {
  @Test(arguments: WireKind.allCases)
  func `two clients on a bad network agree with the server`(_ kind: WireKind) async throws {
    var random = SeededGenerator(printingSeedFor: "TormentTests")
    try await withBackend(over: kind) { backend in
      let proxy = ChaosProxy(target: backend.port, seed: random.next(), cuts: 40)
      let port = try await proxy.start()
      let workers = try ["a", "b"].map { name in
        let database = try backend.anonymousClient(through: port)
        return (
          database,
          ChaosWorker(
            database, name: name, seed: random.next(), kind == .line ? .line : .realtime)
        )
      }
      for (database, _) in workers {
        while Auth.auth(database: database).currentUser == nil {
          _ = try? await Auth.auth(database: database).signIn(
            withAdministratorToken: backend.parts.administratorToken.text)
        }
      }
      let copies = try await withThrowingTaskGroup(of: String.self) { group in
        for (_, worker) in workers {
          group.addTask {
            await worker.write { !proxy.isCalm }
            return try await worker.finish(with: ["a", "b"])
          }
        }
        return try await group.reduce(into: []) { $0.append($1) }
      }
      let truth = try await backend.client().reference(withPath: "chaos").getData()
      #expect(copies == [canonical(truth.value), canonical(truth.value)])
      for (_, worker) in workers {
        #expect(worker.problems.isEmpty, "\(worker.problems.prefix(5))")
      }
      #expect(proxy.cuts == 40)
      let tallies = workers.map(\.1.tally)
      let problems = ChaosTally.problems(
        of: tallies, in: truth, cuts: proxy.cuts, over: kind == .line ? .line : .realtime)
      #expect(problems.isEmpty, "\(problems)")
      // The check itself notices a write that the server lost.
      var more = tallies
      more[0].written += 1
      #expect(
        !ChaosTally.problems(of: more, in: truth, cuts: proxy.cuts, over: .realtime).isEmpty)
      try await proxy.stop()
    }
  }

  @Test func `twenty clients star one post at once, and each star counts once`() async throws {
    try await withBackend { backend in
      let post = try await backend.client().reference(withPath: "posts/p")
      try await post.setValue(["uid": "u", "author": "ada", "title": "t", "body": "b"])
      try await withThrowingTaskGroup { group in
        for number in 1...20 {
          let database = try await backend.client()
          group.addTask {
            let own = database.reference(withPath: "posts/p")
            let isCommitted = try await toggleStar(on: own, of: "user\(number)")
            #expect(isCommitted)
          }
        }
        try await group.waitForAll()
      }
      #expect(try backend.node("posts/p/starCount") == 20)
      #expect(try backend.node("posts/p/stars").childCount == 20)
    }
  }
}
