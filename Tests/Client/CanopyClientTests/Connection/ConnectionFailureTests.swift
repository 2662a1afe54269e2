import CanopyTesting
import Foundation
import NIOCore
import NIOPosix
import Synchronization
import Testing

@testable import CanopyClient

/// The reasons why there is no connection, in the log and in the errors of requests.
@Suite(.timeLimit(.minutes(20))) struct ConnectionFailureTests {
  /// A database whose attempts to connect fail, with its timers under the test's control.
  private final class Attempts: Sendable {
    let log = LineLog()
    let database: Database
    private let delays: Received<Int64>
    private let retry: Retry

    init(_ url: String) throws {
      let delays = Received<Int64>()
      let retry = Retry()
      var options = DatabaseOptions()
      options.logger = log.logger
      options.backoff = Backoff(first: 100, max: 400)
      options.requestMilliseconds = 7_001
      options.keepaliveMilliseconds = 7_002
      options.environment = ClientEnvironment(
        now: { 0 }, random: { 0 },
        schedule: { milliseconds, body in
          switch milliseconds {
          // A request does not wait.
          case 7_001: body()
          case 7_002: break
          default:
            retry.body.withLock { $0 = body }
            delays.add(milliseconds)
          }
        })
      database = try Database(url: url, options: options)
      database.callbackQueue = DispatchQueue(label: "callbacks")
      self.delays = delays
      self.retry = retry
      database.goOnline()
    }

    /// Makes a number of attempts, and returns the delays after them.
    func fail(_ count: Int) async -> [Int64] {
      for attempt in 1...count {
        await delays.wait(for: attempt)
        if attempt < count { retry.body.withLock { $0.take() }?() }
      }
      return delays.values
    }

    /// Returns the sentences of the errors of a read and of a sign-in.
    func sentences() async -> [String] {
      let read = await #expect(throws: DatabaseError.self) {
        try await database.reference(withPath: "a").getData()
      }
      let signIn = await #expect(throws: AuthError.self) {
        try await Auth.auth(database: database).signInAnonymously()
      }
      #expect(read?.code == .disconnected && signIn?.code == .networkError)
      return [read?.sentence ?? "", signIn?.sentence ?? ""]
    }

    var warnings: [String] { log.lines.filter { $0.hasPrefix("warning") } }
  }

  /// The function that the next retry calls.
  private final class Retry: Sendable {
    let body = Mutex<(@Sendable () -> Void)?>(nil)
  }

  private func expect(_ reason: String, of url: String) async throws {
    let attempts = try Attempts(url)
    #expect(await attempts.fail(5) == [50, 100, 200, 200, 200], "\(url)")
    for sentence in await attempts.sentences() {
      #expect(sentence.contains("the last attempt failed: "), "\(url)")
      #expect(sentence.contains(reason), "\(url)")
    }
    #expect(attempts.warnings.count == 1, "\(url)")
    #expect(attempts.warnings.allSatisfy { $0.contains(reason) }, "\(url): \(attempts.warnings)")
    attempts.database.goOffline()
    for sentence in await attempts.sentences() {
      #expect(sentence.contains("the application went offline; call goOnline() first"))
    }
  }

  @Test(arguments: ["canopy", "canopys", "http", "https"])
  func `a closed port refuses the connection`(_ scheme: String) async throws {
    try await expect("connection refused by 127.0.0.1:1", of: "\(scheme)://127.0.0.1:1")
  }

  @Test func `a name without an address is reported`() async throws {
    try await expect("the host nothing.invalid has no address", of: "canopy://nothing.invalid:1")
  }

  @Test func `a line port does not speak HTTP`() async throws {
    try await withBackend { backend in
      try await expect(
        "127.0.0.1:\(backend.port) does not speak HTTP", of: "http://127.0.0.1:\(backend.port)")
    }
  }

  @Test func `an HTTP port speaks neither lines nor TLS, and has no unknown namespace`()
    async throws
  {
    try await withBackend(over: .realtime) { backend in
      let place = "127.0.0.1:\(backend.port)"
      try await expect("\(place) speaks HTTP", of: "canopy://\(place)")
      try await expect("no TLS with \(place)", of: "canopys://\(place)")
      try await expect("no TLS with \(place)", of: "https://\(place)")
      try await expect("there is no namespace nothing", of: "http://\(place)?ns=nothing")
    }
  }

  /// Greets a client as servers of mail do.
  private final class Greeting: ChannelInboundHandler {
    typealias InboundIn = ByteBuffer

    func channelActive(context: ChannelHandlerContext) {
      context.channel.writeAndFlush(ByteBuffer(string: "220 welcome\r\n"), promise: nil)
    }
  }

  @Test(arguments: ["canopy", "http"])
  func `the delays grow while a server sends other text`(_ scheme: String) async throws {
    let server = try await ServerBootstrap(group: MultiThreadedEventLoopGroup.singleton)
      .childChannelInitializer { channel in
        channel.eventLoop.makeCompletedFuture {
          try channel.pipeline.syncOperations.addHandler(Greeting())
        }
      }
      .bind(host: "127.0.0.1", port: 0).get()
    let port = server.localAddress?.port ?? 0
    let attempts = try Attempts("\(scheme)://127.0.0.1:\(port)")
    #expect(await attempts.fail(4) == [50, 100, 200, 200])
    #expect(attempts.warnings.count == 1)
    attempts.database.goOffline()
    try await server.close()
  }

  @Test func `each reason is logged once between two connections, up to a bound`() {
    var trouble = ConnectionTrouble()
    let first = ["a", "a", "b", "a"].map { trouble.failed($0, isAttempt: true) }
    #expect(first == [true, false, true, false])
    // The end of a working connection is not a failed attempt.
    let end = trouble.failed("c", isAttempt: false)
    #expect(!end && trouble.last == "c")
    let more = (3...ConnectionTrouble.loggedMax).map { trouble.failed("\($0)", isAttempt: true) }
    #expect(!more.contains(false))
    let beyond = trouble.failed("one more", isAttempt: true)
    #expect(!beyond && trouble.last == "one more")
    trouble.connected()
    #expect(trouble.last == nil)
    let again = trouble.failed("a", isAttempt: true)
    #expect(again)
  }
}
