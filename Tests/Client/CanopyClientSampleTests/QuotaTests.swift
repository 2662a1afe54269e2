import CanopyClient
import CanopyTesting
import Foundation
import Testing

@testable import CanopyClientBench

/// A client that writes more than a server takes from a user.
@Suite(.timeLimit(.minutes(20))) struct QuotaTests {
  @Test(arguments: ChaosTransport.allCases)
  func `each of many writes over the quota is made once, in order, a few in each second`(
    _ transport: ChaosTransport
  ) async throws {
    let folder = try TemporaryFolder()
    let rules = #"{"rules":{".read":true,".write":"auth != null"}}"#
    try FileManager.default.createDirectory(
      atPath: folder.file("data"), withIntermediateDirectories: true,
      attributes: [.posixPermissions: 0o700])
    try Data(rules.utf8).write(to: URL(fileURLWithPath: folder.file("data/rules.json")))
    let server = try ServerProcess(
      transport, folder: folder.file("data"), "--writes-on-this-machine", "limited",
      "--writes-per-second", "4", "--write-burst-seconds", "1")
    defer {
      server.stop()
      withExtendedLifetime(folder) {}
    }
    let database = try Database(url: transport.url(port: server.port))
    database.callbackQueue = DispatchQueue(label: "callbacks")
    try await Auth.auth(database: database).createUser(
      withEmail: "ada@example.org", password: "secret words of ada")
    let observer = try Database(url: transport.url(port: server.port))
    observer.callbackQueue = DispatchQueue(label: "callbacks of the observer")
    let watched = Task {
      var values: [Int] = []
      for try await snapshot in observer.reference(withPath: "last").values {
        if let value = snapshot.value as? Int { values.append(value) }
        if values.last == 9 { break }
      }
      return values
    }
    let root = database.reference()
    let begin = ContinuousClock.now
    for number in 0..<9 {
      root.updateChildValues(["last": number, "count": CanopyClient.ServerValue.increment(1)]) {
        error, _ in #expect(error == nil)
      }
    }
    let (isCommitted, snapshot) = try await root.child("last").runTransactionBlock { data in
      data.value = (data.value as? Int ?? 0) + 1
      return .success(withValue: data)
    }
    #expect(isCommitted && snapshot.value as? Int == 9)
    // Ten writes of four in a second: the last ones come after two waits of a second.
    #expect(begin.duration(to: .now) >= .seconds(2))
    #expect(try await root.child("count").getData().value as? Int == 9)
    let values = try await watched.value
    #expect(values == values.sorted() && values.last == 9)
    database.goOffline()
    observer.goOffline()
  }
}
