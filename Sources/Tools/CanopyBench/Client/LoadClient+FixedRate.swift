import CanopyTree

/// A load at a fixed rate. Requests are sent at planned times, whether or not earlier ones are answered, as those of
/// many independent people are.
struct FixedRate {
  var requestsPerSecond: Double
  var seconds: Double
  var seed: UInt64

  /// The number of requests.
  var count: Int { Int(requestsPerSecond * seconds) }

  /// The nanoseconds from the start to the planned time of a request.
  func time(of request: Int) -> Int64 { Int64(Double(request) * 1e9 / requestsPerSecond) }
}

extension LoadClient {
  /// The most requests of a user that may be in flight. Reaching it means that the server cannot serve this rate.
  private static var inFlightMax: Int { 1 << 14 }

  /// Loads the server at a fixed rate, until all replies have arrived. Users take turns.
  ///
  /// A latency begins at the planned time of its request, so a stall of the server or of this client counts for all
  /// requests that it delays.
  ///
  /// - Parameters:
  ///   - next: returns the next request of a user.
  ///   - usage: returns the CPU seconds that the server has used.
  ///   - goesOn: whether to send more; called again and again. The load ends earlier if not.
  /// - Throws: `BenchFailure` if the server is too slow for this rate.
  func run(
    at rate: FixedRate, next: (inout SplitMix64) -> D.Request, usage: () throws -> Double,
    while goesOn: () -> Bool = { true }
  ) throws -> Sample {
    var sample = Sample()
    sample.timeline = Timeline()
    prepare(rate.seed, depth: Self.inFlightMax)
    var total = rate.count
    let mark = try UsageMark(usage)
    let start = monotonicNanoseconds()
    var sent = 0
    var answered = 0
    var lastReply = start
    while answered < total {
      if sent < total, !goesOn() {
        total = sent
        if answered == total { break }
      }
      let now = monotonicNanoseconds()
      let firstUser = sent % users.count
      var due = 0
      while sent < total, start + rate.time(of: sent) <= now {
        let id = sent % users.count
        let user = users[id]
        guard user.waiting < Self.inFlightMax else {
          throw BenchFailure(
            "the server is too slow for \(shortText(rate.requestsPerSecond)) a second")
        }
        append(next(&user.random), user, id, at: start + rate.time(of: sent))
        sent += 1
        due += 1
      }
      for offset in 0..<min(due, users.count) {
        let id = (firstUser + offset) % users.count
        try flush(users[id], id)
      }
      let pause =
        sent < total ? start + rate.time(of: sent) - monotonicNanoseconds() : 1_000_000_000
      _ = try poller.wait(nanoseconds: pause) { id, hasRoom in
        let user = users[id]
        if hasRoom, user.wantsRoom { try flush(user, id) }
        try user.channel.receive()
        let now = monotonicNanoseconds()
        while let reply = try user.channel.nextReply() {
          take(reply, user, id, now, true, &sample)
          answered += 1
          lastReply = now
        }
      }
      guard monotonicNanoseconds() - lastReply < 10_000_000_000 else {
        throw BenchFailure("no reply within ten seconds")
      }
    }
    try UsageMark(usage).fill(&sample, since: mark)
    return sample
  }
}
