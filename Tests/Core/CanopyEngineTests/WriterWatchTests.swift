import CanopyTesting
import CanopyTree
import Logging
import Synchronization
import Testing

@testable import CanopyEngine

/// Work that holds the writer for too long is counted and named.
struct WriterWatchTests {
  /// A clock that moves when a test says so, and a log that is kept.
  private final class Setting: Sendable {
    private let time = Mutex(Duration.zero)
    private let lines = Mutex<[String]>([])

    var elapsed: @Sendable () -> Duration { { [self] in time.withLock { $0 } } }

    func advance(_ duration: Duration) { time.withLock { $0 += duration } }

    /// Returns the metadata of the lines since the last call.
    func logged() -> [String] {
      lines.withLock { lines in
        defer { lines = [] }
        return lines
      }
    }

    var logger: Logger { Logger(label: "test") { _ in Handler(setting: self) } }

    private struct Handler: LogHandler {
      let setting: Setting
      var metadata: Logger.Metadata = [:]
      var logLevel = Logger.Level.trace

      subscript(metadataKey key: String) -> Logger.Metadata.Value? {
        get { metadata[key] }
        set { metadata[key] = newValue }
      }

      func log(event: LogEvent) {
        let words = (event.metadata ?? [:]).sorted { $0.key < $1.key }.map { "\($0)=\($1)" }
        setting.lines.withLock { $0.append(words.joined(separator: " ")) }
      }
    }
  }

  private let setting = Setting()

  @Test func `work of ten milliseconds is not counted, of one more it is`() throws {
    let watch = WriterWatch(clock: setting.elapsed, logger: setting.logger)
    setting.advance(.milliseconds(10))
    watch.note("SET", since: .zero)
    #expect(watch.holds == WriterHolds() && setting.logged().isEmpty)
    setting.advance(.milliseconds(1))
    let location = try Location("a/b")
    watch.note("SET", since: .zero, at: location)
    #expect(watch.holds.count == 1 && watch.holds.longest == .milliseconds(11))
    #expect(watch.holds.longestWork == "SET")
    #expect(setting.logged() == ["ms=11 path=/a/b work=SET"])
  }

  @Test func `there is a line a second, which counts those that were left out`() {
    let watch = WriterWatch(clock: setting.elapsed, logger: setting.logger)
    for _ in 0..<40 {
      let start = watch.now
      setting.advance(.milliseconds(40))
      watch.note("UPDATE", since: start)
    }
    #expect(watch.holds.count == 40)
    #expect(setting.logged() == ["ms=40 work=UPDATE", "ms=40 suppressed=24 work=UPDATE"])
  }

  @Test func `a slow disk is counted apart`() {
    let watch = WriterWatch(clock: setting.elapsed, logger: setting.logger)
    setting.advance(.seconds(1))
    #expect(watch.noteAppend(since: .zero) == .seconds(1))
    #expect(watch.holds.count == 0 && watch.holds.appends == 1)
    #expect(watch.holds.longestAppend == .seconds(1) && setting.logged().isEmpty)
  }

  @Test func `the engine names a transaction and an answer that take long`()
    async throws
  {
    var configuration = Engine.Configuration()
    configuration.elapsed = setting.elapsed
    try await withEngine(configuration: configuration) { [setting] engine in
      func submit(_ name: StaticString, decide: Bool, answer: Bool) async throws {
        try await withCheckedThrowingContinuation {
          (continuation: CheckedContinuation<Void, any Error>) in
          engine.submit(
            { _ in
              if decide { setting.advance(.milliseconds(20)) }
              return Decision(try Write.set(Location("a"), WriteValue(json: "1")), ())
            }, named: name
          ) { result in
            if answer { setting.advance(.milliseconds(30)) }
            continuation.resume(with: result.map { _ in })
          }
        }
        // The engine has noted the answer when it takes the next request.
        _ = try await engine.transact { _ in Decision(nil, ()) }
      }
      try await submit("SET", decide: false, answer: false)
      #expect(engine.writerHolds == WriterHolds())
      try await submit("SET", decide: true, answer: false)
      #expect(engine.writerHolds.count == 1 && engine.writerHolds.longestWork == "SET")
      #expect(engine.writerHolds.longest == .milliseconds(20))
      try await submit("PUSH", decide: false, answer: true)
      #expect(engine.writerHolds.count == 2 && engine.writerHolds.longestWork == "PUSH")
    }
  }

  @Test func `a large branch that is replaced counts as large, a leaf and a post do not`() throws {
    let place = try Location("a")
    func commit(_ replaced: Node) -> Commit {
      Commit(
        sequence: 1, time: 0, assignments: [],
        beforeImage: [Assignment(place, replaced)])
    }
    let text = String(repeating: "x", count: 1_000)
    let children = (0..<10).map { (Key(index: $0), Node(text)) }
    let post = Node(children: [("title", Node(text))])
    #expect(!RetiredTrees.areLarge([commit(.absent), commit(post)]))
    #expect(!RetiredTrees.areLarge([commit(Node(children: children.dropLast(7)))]))
    #expect(RetiredTrees.areLarge([commit(post), commit(Node(children: children))]))
  }
}
