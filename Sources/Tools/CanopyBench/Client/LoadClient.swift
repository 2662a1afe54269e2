import CanopyTree
import Foundation
import Histogram

/// The load generator: connections with a fixed number of requests in flight each, driven by one thread.
///
/// It is the same for every system; only the bytes differ. `run` is a closed loop: a reply makes it send the next
/// request. `run(at:…)` sends at given times instead.
final class LoadClient<D: Dialect> {
  private let dialect: D
  let users: [User]
  let poller: Poller

  /// A connection and its requests in flight. Replies arrive in the order of requests.
  final class User {
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
    if pace.hasTimeline { sample.timeline = Timeline() }
    var times = RunTimes(warmUpSeconds: pace.warmUpSeconds, seconds: pace.seconds)
    prepare(pace.seed, depth: pace.depth)
    for (id, user) in users.enumerated() {
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

  /// Begins a run: no request is in flight, and each user has random numbers of its own.
  func prepare(_ seed: UInt64, depth: Int) {
    for (id, user) in users.enumerated() {
      user.random = SplitMix64(seed: seed &* 1_000_003 &+ UInt64(id))
      user.inFlight = Array(repeating: (nil, 0), count: depth)
      user.oldest = 0
    }
  }

  /// Takes a reply that arrived now: notes its latency, and checks it.
  func take(
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
      sample.timeline?.record(latency: now - sentAt, at: now)
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
    for _ in 0..<count { append(next(&user.random), user, id, at: now) }
    try flush(user, id)
  }

  /// Puts a request into the output of a user. Precondition: there is room for another request in flight.
  ///
  /// - Parameter time: the start of its latency.
  func append(_ request: D.Request, _ user: User, _ id: Int, at time: Int64) {
    assert(user.waiting < user.inFlight.count, "too many requests are in flight")
    var place = user.oldest + user.waiting
    if place >= user.inFlight.count { place -= user.inFlight.count }
    user.inFlight[place] = (request, time)
    user.waiting += 1
    dialect.write(request, as: id, to: &user.channel.output)
  }

  func flush(_ user: User, _ id: Int) throws {
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
    func next(_ random: inout SplitMix64) -> BlogRequest {
      round.mix.next(posts: round.posts, &random)
    }
    guard let rate = round.requestsPerSecond else {
      return try run(round.pace, next: next, usage: usage)
    }
    return try run(
      at: FixedRate(requestsPerSecond: rate, seconds: round.seconds, seed: round.seed), next: next,
      usage: usage)
  }
}
