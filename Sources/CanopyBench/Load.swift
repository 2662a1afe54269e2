import ArgumentParser
import CanopyTree
import Foundation
import NIOCore
import NIOPosix
import Synchronization

struct Load: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    abstract: "Requests per second of each kind, many connections, one request each at a time.",
    discussion: "Durable before the reply, unless --durability relaxed is passed on.")

  @Option var connections = 50
  @Option(help: "Seconds for each kind.") var seconds = 3.0
  @Option(help: "Posts written before measuring.") var posts = 1_000
  @Option var bodyBytes = 300
  @Option(help: "An existing data folder; else a new one.") var data: String?
  @Option(help: "Only this kind: PING, SHOW, RECENT, TOP, POST, STAR, STAR1.") var only: String?
  @Option(help: "Wait this long before each kind, to attach a profiler.") var pause = 0.0

  func run() async throws {
    let temporary = FileManager.default.temporaryDirectory
      .appendingPathComponent("canopy-load-\(ProcessInfo.processInfo.processIdentifier)").path
    defer { if data == nil { try? FileManager.default.removeItem(atPath: temporary) } }
    let started = Date()
    let server = try Server(folder: data ?? temporary)
    print("ready after \(format(Date().timeIntervalSince(started))) s, pid \(server.processID)")
    let group = MultiThreadedEventLoopGroup(numberOfThreads: 1)

    var tokens: [String] = []
    for _ in 0..<connections {
      let name = "load" + String(UInt64.random(in: 0...UInt64.max), radix: 36)
      tokens.append(try LineSocket(port: server.port).signUp(name).token)
    }
    let writer = try LineSocket(port: server.port)
    _ = try writer.success("AUTH \(tokens[0])")
    var ids: [String] = []
    let body = String(repeating: "b", count: bodyBytes)
    for i in 0..<posts {
      if let id = try writer.success("POST \"Post number \(i)\" \"\(body)\"")["id"]?.string {
        ids.append(id)
      }
    }
    let known = ids
    let kinds: [(String, @Sendable (inout SplitMix) -> String)] = [
      ("PING", { _ in "PING" }),
      ("SHOW", { "SHOW \(known.randomElement(using: &$0) ?? "")" }),
      ("RECENT", { _ in "RECENT {\"limit\":20}" }),
      ("TOP", { _ in "TOP {\"limit\":10}" }),
      ("POST", { _ in "POST \"A title of some length\" \"\(body)\"" }),
      ("STAR", { "STAR \(known.randomElement(using: &$0) ?? "")" }),
      ("STAR1", { _ in "STAR \(known[0])" }),
    ]
    print("kind     requests/s    p50 ms    p99 ms   p99.9 ms")
    for (name, make) in kinds where only == nil || only == name {
      if pause > 0 { try await Task.sleep(for: .seconds(pause)) }
      let result = try await measure(server.port, tokens, group, make)
      let columns = [result.perSecond, result.p50, result.p99, result.p999]
      let widths = [11, 10, 10, 11]
      let digits = [0, 3, 3, 3]
      let cells = columns.indices.map { i in
        let text = format(columns[i], digits[i])
        return String(repeating: " ", count: max(0, widths[i] - text.count)) + text
      }
      print(name.padding(toLength: 8, withPad: " ", startingAt: 0) + cells.joined())
    }
    if let rss = server.memoryKibibytes("VmHWM") { print("peak memory \(rss / 1024) MiB") }
    try server.stop()
    try await group.shutdownGracefully()
  }

  private struct Outcome {
    var perSecond: Double
    var p50: Double
    var p99: Double
    var p999: Double
  }

  private func measure(
    _ port: Int, _ tokens: [String], _ group: MultiThreadedEventLoopGroup,
    _ make: @escaping @Sendable (inout SplitMix) -> String
  ) async throws -> Outcome {
    let end = NIODeadline.now() + .nanoseconds(Int64(seconds * 1e9))
    let started = NIODeadline.now()
    var futures: [EventLoopFuture<[Int64]>] = []
    for (i, token) in tokens.enumerated() {
      let promise = group.next().makePromise(of: [Int64].self)
      let bootstrap = ClientBootstrap(group: group)
        .channelOption(.tcpOption(.tcp_nodelay), value: 1)
        .channelInitializer { channel in
          channel.eventLoop.makeCompletedFuture {
            let loader = Loader(
              token: token, seed: UInt64(i + 1), end: end, done: promise, make: make)
            try channel.pipeline.syncOperations.addHandler(loader)
          }
        }
      bootstrap.connect(host: "127.0.0.1", port: port).whenFailure { promise.fail($0) }
      futures.append(promise.futureResult)
    }
    let latencies = try await EventLoopFuture.whenAllSucceed(futures, on: group.next()).get()
      .flatMap { $0 }.sorted()
    let elapsed = Double((NIODeadline.now() - started).nanoseconds) / 1e9
    func percentile(_ p: Double) -> Double {
      guard !latencies.isEmpty else { return 0 }
      return Double(latencies[min(latencies.count - 1, Int(Double(latencies.count) * p))]) / 1e6
    }
    return Outcome(
      perSecond: Double(latencies.count) / elapsed, p50: percentile(0.5), p99: percentile(0.99),
      p999: percentile(0.999))
  }

  private func format(_ value: Double, _ digits: Int = 2) -> String {
    String(format: "%.\(digits)f", value)
  }
}

/// One connection: sends a request when the last one is answered, until the time is up.
private final class Loader: ChannelInboundHandler {
  typealias InboundIn = ByteBuffer

  private let token: String
  private let end: NIODeadline
  private let done: EventLoopPromise<[Int64]>
  private let make: @Sendable (inout SplitMix) -> String
  private var random: SplitMix
  private var latencies: [Int64] = []
  private var sentAt = NIODeadline.now()
  private var isLoggedIn = false

  init(
    token: String, seed: UInt64, end: NIODeadline, done: EventLoopPromise<[Int64]>,
    make: @escaping @Sendable (inout SplitMix) -> String
  ) {
    self.token = token
    self.end = end
    self.done = done
    self.make = make
    random = SplitMix(state: seed)
  }

  func channelActive(context: ChannelHandlerContext) {
    send(context, "AUTH \(token)")
  }

  func channelRead(context: ChannelHandlerContext, data: NIOAny) {
    let buffer = unwrapInboundIn(data)
    // One request is under way, so a line end ends its reply.
    guard let last = buffer.getBytes(at: buffer.writerIndex - 1, length: 1), last == [0x0A] else {
      return
    }
    if buffer.getBytes(at: buffer.readerIndex, length: 1) == [UInt8(ascii: "-")] {
      done.fail(BenchFailure(String(buffer: buffer)))
      context.close(promise: nil)
      return
    }
    let now = NIODeadline.now()
    if isLoggedIn { latencies.append((now - sentAt).nanoseconds) }
    isLoggedIn = true
    guard now < end else {
      done.succeed(latencies)
      context.close(promise: nil)
      return
    }
    send(context, make(&random))
  }

  func channelInactive(context: ChannelHandlerContext) {
    done.fail(BenchFailure("the server closed a connection"))
  }

  private func send(_ context: ChannelHandlerContext, _ line: String) {
    var buffer = context.channel.allocator.buffer(capacity: line.utf8.count + 1)
    buffer.writeString(line)
    buffer.writeInteger(UInt8(0x0A))
    sentAt = .now()
    context.writeAndFlush(NIOAny(buffer), promise: nil)
  }
}
