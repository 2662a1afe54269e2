import CanopyTree
import Foundation
import Histogram

/// The load generator: connections with a fixed number of requests in flight each, driven by one thread.
///
/// It is the same for every system; only the bytes differ. `run(_:next:usage:)` is a closed loop: a reply makes it send the
/// next request. `run(perSecond:seed:next:while:)` is an open loop, in which replies do not matter.
final class LoadClient<D: Dialect> {
  private let dialect: D
  private let users: [User]
  private let poller: Poller

  /// A connection and its requests in flight. Replies arrive in the order of requests.
  private final class User {
    let channel: Channel<D.Framer>
    var random = SplitMix64(seed: 0)
    var inFlight: [(request: D.Request?, sentAt: Int64)] = []
    /// The index of the oldest request in flight in the ring.
    var oldest = 0
    var waiting = 0
    var wantsRoom = false
    var replies = 0

    init(_ channel: Channel<D.Framer>) {
      self.channel = channel
    }
  }

  /// - Parameter channels: a connection for each user, logged in, without requests under way.
  init(_ dialect: D, _ channels: [Channel<D.Framer>]) throws {
    self.dialect = dialect
    poller = try Poller()
    users = channels.map { User($0) }
    for (id, user) in users.enumerated() {
      user.channel.socket.stopWaiting()
      try poller.add(user.channel.socket, id: id)
    }
  }

  /// Loads the server: first without measuring, then measuring, then until all replies have arrived.
  ///
  /// - Parameters:
  ///   - next: returns the next request of a user.
  ///   - usage: returns the CPU seconds that the server has used. It is called at both ends of the measured time.
  func run(
    _ pace: Pace, next: (inout SplitMix64) -> D.Request, usage: () throws -> Double
  ) throws -> Sample {
    var sample = Sample()
    var times = RunTimes(warmUpSeconds: pace.warmUpSeconds, seconds: pace.seconds)
    for (id, user) in users.enumerated() {
      user.random = SplitMix64(seed: pace.seed &* 1_000_003 &+ UInt64(id))
      user.inFlight = Array(repeating: (nil, 0), count: pace.depth)
      user.oldest = 0
      try send(user, id, pace.depth, next, at: monotonicNanoseconds())
    }
    var waiting = users.count * pace.depth
    while waiting > 0 {
      try poller.wait { id, hasRoom in
        let user = users[id]
        if hasRoom, user.wantsRoom { try flush(user, id) }
        try user.channel.receive()
        let now = monotonicNanoseconds()
        var count = 0
        while let reply = try user.channel.nextReply() {
          take(reply, user, id, now, times.isMeasuring, &sample)
          count += 1
        }
        guard count > 0 else { return }
        waiting -= count
        if times.isSending {
          waiting += count
          try send(user, id, count, next, at: now)
        }
      }
      try times.advance(&sample, usage)
    }
    return sample
  }

  /// The most requests in flight of a user in an open loop.
  private static var waitingMax: Int { 4_096 }

  /// Loads the server at a fixed rate, and then waits for the last replies. The time of a request counts from the moment at
  /// which it was due, so a server that stands still for a moment is late with all requests of that moment.
  ///
  /// - Parameters:
  ///   - rate: the requests in a second, spread evenly over time and users.
  ///   - goesOn: whether to send more; called again and again.
  /// - Throws: `BenchFailure` if the server falls behind by more than `waitingMax` requests of a user.
  func run(
    perSecond rate: Double, seed: UInt64, next: (inout SplitMix64) -> D.Request,
    while goesOn: () -> Bool
  ) throws -> Sample {
    var sample = Sample()
    for (id, user) in users.enumerated() {
      user.random = SplitMix64(seed: seed &* 1_000_003 &+ UInt64(id))
      user.inFlight = Array(repeating: (nil, 0), count: Self.waitingMax)
      user.oldest = 0
    }
    let start = monotonicNanoseconds()
    func due(_ number: Int) -> Int64 { start + Int64(Double(number) / rate * 1e9) }
    var (sent, received, isSending) = (0, 0, true)
    while isSending || received < sent {
      let now = monotonicNanoseconds()
      if isSending, !goesOn() {
        isSending = false
        sample.seconds = Double(now - start) / 1e9
        if received == sent { break }
      }
      while isSending, due(sent) <= now {
        let id = sent % users.count
        guard users[id].waiting < Self.waitingMax else {
          throw BenchFailure("the server does not keep up with \(Int(rate)) requests in a second")
        }
        try send(users[id], id, 1, next, at: due(sent))
        sent += 1
      }
      try poller.wait(atMost: isSending ? due(sent) - monotonicNanoseconds() : nil) { id, hasRoom in
        let user = users[id]
        if hasRoom, user.wantsRoom { try flush(user, id) }
        try user.channel.receive()
        let now = monotonicNanoseconds()
        while let reply = try user.channel.nextReply() {
          take(reply, user, id, now, true, &sample)
          received += 1
        }
      }
    }
    return sample
  }

  private func take(
    _ reply: Channel<D.Framer>.Reply, _ user: User, _ id: Int, _ now: Int64, _ isMeasuring: Bool,
    _ sample: inout Sample
  ) {
    guard user.waiting > 0, let request = user.inFlight[user.oldest].request else {
      sample.addWrong("a reply without a request: \(reply.text.prefix(200))")
      return
    }
    let sentAt = user.inFlight[user.oldest].sentAt
    user.oldest = user.oldest + 1 == user.inFlight.count ? 0 : user.oldest + 1
    user.waiting -= 1
    user.replies += 1
    if isMeasuring {
      sample.operations += 1
      sample.latencies.record(UInt64(max(1, now - sentAt)))
    }
    let verdict =
      reply.frame.isError
      ? .wrong
      : dialect.check(
        reply.frame, reply.bytes, to: request, as: id, isThorough: user.replies & 63 == 1)
    switch verdict {
    case .right: break
    case .starred(let isOn): sample.stars += isOn ? 1 : -1
    case .posted: sample.posts += 1
    case .wrong: sample.addWrong("\(request): \(reply.text.prefix(200))")
    }
  }

  private func send(
    _ user: User, _ id: Int, _ count: Int, _ next: (inout SplitMix64) -> D.Request, at now: Int64
  ) throws {
    for _ in 0..<count {
      let request = next(&user.random)
      var place = user.oldest + user.waiting
      if place >= user.inFlight.count { place -= user.inFlight.count }
      user.inFlight[place] = (request, now)
      user.waiting += 1
      dialect.write(request, as: id, to: &user.channel.output)
    }
    try flush(user, id)
  }

  private func flush(_ user: User, _ id: Int) throws {
    let wantsRoom = try !user.channel.flush()
    if wantsRoom != user.wantsRoom {
      user.wantsRoom = wantsRoom
      try poller.change(user.channel.socket, id: id, wantsRoom: wantsRoom)
    }
  }
}

extension LoadClient where D.Request == BlogRequest {
  /// Loads the server with the requests of a round.
  func run(_ round: Round, usage: () throws -> Double) throws -> Sample {
    try run(
      round.pace, next: { random in round.mix.next(posts: round.posts, &random) }, usage: usage)
  }
}
