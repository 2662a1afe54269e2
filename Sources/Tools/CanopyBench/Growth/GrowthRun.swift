import CanopyTree
import Foundation
import NIOCore

/// The measurements of the command `growth`.
final class GrowthRun {
  private static let connections = 8

  private let rounds: Int
  private let seconds: Double
  private let seed: UInt64
  private let folder: String
  private let folders: CanopyFolders
  private let emptyBytes: Int
  private(set) var report: GrowthReport

  init(rounds: Int, seconds: Double, seed: UInt64) throws {
    self.rounds = rounds
    self.seconds = seconds
    self.seed = seed
    folder = try Children.makeFolder()
    folders = try CanopyFolders(in: folder, users: Self.connections)
    emptyBytes = try CanopyPeer.residentBytes(folders)
    report = GrowthReport(setting: [
      "\(System.coreCount) cores, shared by the server and its clients; \(Self.connections) connections "
        + "with one request each in flight",
      "medians of \(rounds) rounds of \(shortText(seconds)) s; seed \(seed)",
    ])
  }

  private func note(_ samples: [Sample], _ what: String) {
    for sample in samples where sample.wrong > 0 {
      let text = "\(what): \(sample.wrong) wrong: \(sample.firstWrong ?? "")"
      say("FAILED: \(text)")
      report.failures.append(text)
    }
  }
}

extension GrowthRun {
  /// Measures memory, start-up, a checkpoint, and the p99 of each request with a number of posts.
  func measurePosts(_ posts: Int) throws {
    // Each author has ten posts or more, so that TOP finds a full list.
    let users = min(1_000, posts / BlogRequest.topCount)
    let data = DataSet(posts: posts, users: users, uids: folders.uids)
    let place = folder + "/canopy-\(posts)"
    defer { try? FileManager.default.removeItem(atPath: place) }
    try folders.make(place, holding: data)
    report.add(
      try startUps {
        try CanopyPeer(data, folder: place, tokens: folders.tokens)
      } stop: {
        try $0.stop()
      }, at: posts, to: PeerName.canopy.rawValue, in: .startUp)

    let peer = try CanopyPeer(data, folder: place, tokens: folders.tokens)
    report.add(
      Double(peer.usage.residentBytes() - emptyBytes) / Double(posts), at: posts,
      to: PeerName.canopy.rawValue, in: .memory)
    try peer.connect(Self.connections)
    let mixes: [(String, Mix)] = [
      ("SHOW", .show), ("RECENT 100", .recent), ("TOP me 10", .top), ("STAR", .starAll),
      ("POST", .post),
    ]
    for (name, mix) in mixes {
      let samples = try (0..<rounds).map { number in
        try peer.run(
          Round(
            mix: mix, warmUpSeconds: 0.2, seconds: seconds, posts: posts,
            seed: seed &+ UInt64(number)))
      }
      note(samples, "\(name) of \(posts) posts")
      report.add(
        median(samples.map { $0.milliseconds(atPercentile: 99) }), at: posts, to: name,
        in: .latency)
    }
    try peer.stop()
    try measureCheckpoint(data, place)
    try measureRedis(data)
  }

  /// Returns the median seconds of starting a server, until it is ready.
  private func startUps<Started>(
    _ start: () throws -> Started, stop: (Started) throws -> Void
  ) throws -> Double {
    median(
      try (0..<rounds).map { _ in
        let began = monotonicNanoseconds()
        let started = try start()
        let seconds = Double(monotonicNanoseconds() - began) / 1e9
        try stop(started)
        return seconds
      })
  }

  /// Measures the checkpoint of 1,000 stars on posts that are far apart.
  private func measureCheckpoint(_ data: DataSet, _ place: String) throws {
    let stars = 1_000
    let server = try Server(
      folder: place, arguments: ["--checkpoint-after", "1"], hasHTTP: true)
    guard let port = server.httpPort, let token = folders.tokens.last else {
      throw BenchFailure("the server has no port for HTTP")
    }
    let socket = try LineSocket(port: server.port)
    _ = try socket.success("AUTH \(token)")
    let keys = data.keys()
    // The checkpoint of the writes before.
    _ = try socket.success("STAR \(keys[0].text)")
    let before = try checkpoints(port) { $0.count > 0 }
    let step = max(1, data.posts / stars)
    let lines = stride(from: 0, to: data.posts, by: step).prefix(stars).map {
      "STAR \(keys[$0].text)"
    }
    try socket.successes(Array(lines))
    let after = try checkpoints(port) { $0.count > before.count }
    report.add(
      (after.seconds - before.seconds) / Double(after.count - before.count), at: data.posts,
      to: PeerName.canopy.rawValue, in: .checkpoint)
    try server.stop()
  }

  /// Returns the number and the seconds of all checkpoints, as soon as they satisfy a condition.
  private func checkpoints(
    _ port: Int, until condition: ((count: Int, seconds: Double)) -> Bool
  ) throws -> (count: Int, seconds: Double) {
    for _ in 0..<3_000 {
      let text = try Server.metrics(port)
      let found = (
        count: Int(Server.metric("canopy_checkpoint_seconds_count", in: text)),
        seconds: Server.metric("canopy_checkpoint_seconds_sum", in: text)
      )
      if condition(found) { return found }
      usleep(100_000)
    }
    throw BenchFailure("no checkpoint within five minutes")
  }

  private func measureRedis(_ data: DataSet) throws {
    let redis = try RedisPeer(data, folder: folder + "/redis-\(data.posts)")
    defer { try? FileManager.default.removeItem(atPath: folder + "/redis-\(data.posts)") }
    let empty = try redis.info("used_memory_rss")
    try redis.load()
    redis.stop()
    try redis.start()
    report.add(
      Double(try redis.info("used_memory_rss") - empty) / Double(data.posts), at: data.posts,
      to: PeerName.redis.rawValue, in: .memory)
    redis.stop()
    report.add(
      try startUps {
        try redis.start()
      } stop: {
        redis.stop()
      }, at: data.posts, to: PeerName.redis.rawValue, in: .startUp)
  }
}

extension GrowthRun {
  /// Measures the events of one location to a number of listeners.
  func measureListeners(_ listeners: Int) throws {
    // Each system in a function of its own, so that its connections are closed before the next one begins: a process may
    // not have many more descriptors than the most listeners.
    let textBytes = try measureCanopyListeners(listeners)
    try measureRedisListeners(listeners, textBytes: textBytes)
    try measureNATSListeners(listeners, textBytes: textBytes)
  }

  /// Returns the bytes of the text that an event contains: the peers send texts of as many bytes as an event of Canopy has.
  private func measureCanopyListeners(_ listeners: Int) throws -> Int {
    let data = DataSet(posts: 1_000, users: 100, uids: folders.uids)
    let place = folder + "/fan-out-\(listeners)"
    try folders.make(place, holding: data)
    let peer = try CanopyPeer(
      data, folder: place, tokens: folders.tokens,
      arguments: ["--connections-max", "\(listeners + 1_000)"])
    let client = try FanOutClient(
      try FanOutDialect.values(peer.server, textBytes: 300), ports: [peer.server.port],
      listeners: listeners)
    try measureEvents(client, .canopy, listeners, peer.usage)
    try peer.stop()
    return client.eventBytes - 2
  }

  private func measureRedisListeners(_ listeners: Int, textBytes: Int) throws {
    let redis = try RedisPeer(
      DataSet(posts: 1_000, users: 100, uids: folders.uids),
      folder: folder + "/redis-fan-out-\(listeners)", clientsMax: listeners + 1_000)
    try measureEvents(
      try FanOutClient(
        RedisPeer.fanOut(textBytes: textBytes), ports: [redis.port], listeners: listeners), .redis,
      listeners, redis.usage)
    redis.stop()
  }

  private func measureNATSListeners(_ listeners: Int, textBytes: Int) throws {
    let nats = try NATSServer(folder: folder, connectionsMax: listeners + 1_000)
    try measureEvents(
      try FanOutClient(
        NATSServer.fanOut(textBytes: textBytes), ports: [nats.port], listeners: listeners), .nats,
      listeners, nats.usage)
    nats.stop()
  }

  private func measureEvents<Framer: ReplyFramer>(
    _ client: FanOutClient<Framer>, _ name: PeerName, _ listeners: Int, _ usage: Usage
  ) throws {
    let samples = try (0..<rounds).map { _ in
      try client.run(warmUpSeconds: 0.3, seconds: seconds, usage: usage.cpuSeconds)
    }
    note(samples, "\(listeners) listeners of \(name.rawValue)")
    report.add(
      median(samples.map(\.perSecond)), at: listeners, to: name.rawValue, in: .events)
  }
}

extension GrowthRun {
  /// Measures the change of a child, and of a new child, in the middle of a number of children.
  func measureChildren(_ children: Int) throws {
    let place = folder + "/children-\(children)"
    defer { try? FileManager.default.removeItem(atPath: place) }
    let file = place + ".json"
    try writeChildren(children, to: file)
    let outcome = try Server.run(["import", "--data", place, "/", file])
    guard outcome.status == 0 else { throw BenchFailure("canopy import: \(outcome.output)") }
    try FileManager.default.removeItem(atPath: file)
    let server = try Server(folder: place)
    let token = try String(contentsOfFile: place + "/admin-token", encoding: .utf8)
    let socket = try LineSocket(port: server.port)
    _ = try socket.success("AUTH \(token.trimmingCharacters(in: .whitespacesAndNewlines))")
    for (name, suffix) in [("changed child", ""), ("new child", "x")] {
      let latencies = try (0..<500).map { number in
        // Keys are sorted as text, so these have neighbours on both sides.
        let key = Self.key(children / 2 + number * (children / 2_000)) + suffix
        let start = monotonicNanoseconds()
        _ = try socket.success("SET /large/\(key) \(number)")
        return Double(monotonicNanoseconds() - start) / 1e6
      }
      report.add(median(latencies), at: children, to: name, in: .middle)
    }
    try server.stop()
  }

  private static func key(_ number: Int) -> String {
    let digits = String(number)
    return "k" + String(repeating: "0", count: max(0, 9 - digits.count)) + digits
  }

  private func writeChildren(_ count: Int, to file: String) throws {
    guard FileManager.default.createFile(atPath: file, contents: nil),
      let handle = FileHandle(forWritingAtPath: file)
    else { throw BenchFailure("\(file) cannot be written") }
    var output = JSONOutput { try handle.write(contentsOf: $0) }
    output.append("{\"large\":{")
    for number in 0..<count {
      if number > 0 { output.append(",") }
      output.append(raw: "\"\(Self.key(number))\":\(number)")
    }
    output.append("}}\n")
    try output.finish()
    try handle.close()
  }
}
