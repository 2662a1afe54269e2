extension Comparison {
  /// Measures one write to many listeners: a value event of Canopy, and a PUBLISH of Redis with the same bytes.
  ///
  /// Canopy stores the write on the disk before it sends events. Redis does not store published messages. The
  /// listeners of the line protocol and those over WebSockets have each a value of their own.
  func measureFanOut(_ peers: [any Peer]) throws {
    guard let canopy = peers.lazy.compactMap({ $0 as? CanopyPeer }).first else { return }
    let client = try FanOutClient(
      try canopy.fanOut(textBytes: 300), ports: [canopy.server.port], listeners: listeners)
    let sockets = try FanOutClient(
      try canopy.fanOutOverWebSockets(textBytes: 300), ports: [canopy.httpPort],
      listeners: listeners)
    let redis = try peers.lazy.compactMap { $0 as? RedisPeer }.first.map { peer in
      let dialect = RedisPeer.fanOut(textBytes: client.eventBytes - 2)
      return (peer, try FanOutClient(dialect, ports: [peer.port], listeners: listeners))
    }
    var samples: [PeerName: [Sample]] = [:]
    var socketSamples: [Sample] = []
    for _ in 0..<plan.rounds {
      canopy.usage.resetPeak()
      var sample = try client.run(
        warmUpSeconds: plan.warmUpSeconds, seconds: plan.seconds, usage: canopy.usage.cpuSeconds)
      sample.peakBytes = canopy.usage.peakBytes()
      samples[.canopy, default: []].append(sample)
      canopy.usage.resetPeak()
      sample = try sockets.run(
        warmUpSeconds: plan.warmUpSeconds, seconds: plan.seconds, usage: canopy.usage.cpuSeconds)
      sample.peakBytes = canopy.usage.peakBytes()
      socketSamples.append(sample)
      guard let (peer, client) = redis else { continue }
      peer.usage.resetPeak()
      sample = try client.run(
        warmUpSeconds: plan.warmUpSeconds, seconds: plan.seconds, usage: peer.usage.cpuSeconds)
      sample.peakBytes = peer.usage.peakBytes()
      samples[.redis, default: []].append(sample)
    }
    let title = "one write to \(shortText(Double(listeners))) listeners"
    let socketTitle = "one write to \(shortText(Double(listeners))) WebSocket listeners"
    let all = [
      (title, PeerName.canopy, samples[.canopy]), (socketTitle, .canopy, socketSamples),
      (title, .redis, samples[.redis]),
    ]
    for case (let title, let name, let samples?) in all {
      var row = Report.Row(title, name, samples)
      row.unit = "events"
      add(row)
      for sample in samples where sample.wrong > 0 {
        fail("\(title), \(name.rawValue): \(sample.wrong) wrong: \(sample.firstWrong ?? "")")
      }
    }
    find(title, "events per second", .redis, .atLeast(1))
    find(socketTitle, "events per second", "line protocol", title, .atLeast(0.8))
  }
}

extension CanopyPeer {
  fileprivate func fanOut(textBytes: Int) throws -> FanOutDialect<LineFramer> {
    try .values(server, textBytes: textBytes)
  }

  fileprivate func fanOutOverWebSockets(textBytes: Int) throws -> FanOutDialect<WebSocketFramer> {
    let logIn = [WebSocketBytes.upgrade, WebSocketBytes.logIn(try administratorToken())]
    return FanOutDialect(
      subscribe: logIn + [WebSocketBytes.request(2, "q", #"{"p":"/fan-out-sockets","h":""}"#)],
      logIn: logIn,
      publish: { WebSocketBytes.request(3, "p", #"{"p":"/fan-out-sockets","d":"\#($0)"}"#) },
      eventPrefix: #"{"t":"d","d":{"b":{"#, textBytes: textBytes)
  }
}

extension RedisPeer {
  static func fanOut(textBytes: Int) -> FanOutDialect<RESPFramer> {
    FanOutDialect(
      subscribe: [RESP.command(["SUBSCRIBE", "fan-out"])], logIn: [],
      publish: { RESP.command(["PUBLISH", "fan-out", $0]) },
      eventPrefix: "*3\r\n$7\r\nmessage\r\n", textBytes: textBytes)
  }
}
