extension Comparison {
  /// Measures one write to many listeners: a value event of Canopy, and a PUBLISH of Redis with the same bytes.
  ///
  /// Canopy stores the write on the disk before it sends events. Redis does not store published messages.
  func measureFanOut(_ peers: [any Peer]) throws {
    guard let canopy = peers.lazy.compactMap({ $0 as? CanopyPeer }).first else { return }
    let client = try FanOutClient(
      try canopy.fanOut(textBytes: 300), port: canopy.server.port, listeners: listeners)
    let redis = try peers.lazy.compactMap { $0 as? RedisPeer }.first.map { peer in
      let dialect = RedisPeer.fanOut(textBytes: client.eventBytes - 2)
      return (peer, try FanOutClient(dialect, port: peer.port, listeners: listeners))
    }
    var samples: [PeerName: [Sample]] = [:]
    for _ in 0..<plan.rounds {
      canopy.usage.resetPeak()
      var sample = try client.run(
        warmUpSeconds: plan.warmUpSeconds, seconds: plan.seconds, usage: canopy.usage.cpuSeconds)
      sample.peakBytes = canopy.usage.peakBytes()
      samples[.canopy, default: []].append(sample)
      guard let (peer, client) = redis else { continue }
      peer.usage.resetPeak()
      sample = try client.run(
        warmUpSeconds: plan.warmUpSeconds, seconds: plan.seconds, usage: peer.usage.cpuSeconds)
      sample.peakBytes = peer.usage.peakBytes()
      samples[.redis, default: []].append(sample)
    }
    let title = "one write to \(shortText(Double(listeners))) listeners"
    for name in [PeerName.canopy, .redis] {
      guard let samples = samples[name] else { continue }
      var row = Report.Row(title, name, samples)
      row.unit = "events"
      add(row)
      for sample in samples where sample.wrong > 0 {
        fail("\(title), \(name.rawValue): \(sample.wrong) wrong: \(sample.firstWrong ?? "")")
      }
    }
    find(title, "events per second", .redis, .atLeast(1))
  }
}

extension CanopyPeer {
  fileprivate func fanOut(textBytes: Int) throws -> FanOutDialect<LineFramer> {
    try .values(server, textBytes: textBytes)
  }
}

extension RedisPeer {
  fileprivate static func fanOut(textBytes: Int) -> FanOutDialect<RESPFramer> {
    FanOutDialect(
      subscribe: [RESP.command(["SUBSCRIBE", "fan-out"])], logIn: [],
      publish: { RESP.command(["PUBLISH", "fan-out", $0]) },
      eventPrefix: "*3\r\n$7\r\nmessage\r\n", textBytes: textBytes)
  }
}
