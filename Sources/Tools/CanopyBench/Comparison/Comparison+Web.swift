import CanopyTree
import Foundation

extension Comparison {
  /// A system at one work of the HTTP port, with its connections.
  private struct WebLoad {
    var name: PeerName
    var title: String
    var usage: Usage
    var run: (Pace) throws -> Sample

    init<D: Dialect>(
      _ name: PeerName, _ title: String, _ usage: Usage, _ dialect: D,
      _ channels: [Channel<D.Framer>],
      next: @escaping (inout SplitMix64) -> LeafRequest
    ) throws where D.Request == LeafRequest {
      self.name = name
      self.title = title
      self.usage = usage
      let client = try LoadClient(dialect, channels)
      run = { try client.run($0, next: next, usage: usage.cpuSeconds) }
    }
  }

  private static let titleOfGet = "REST GET of a post"
  private static let titleOfPut = "REST PUT of a leaf"
  private static let titleOfSet = "SET of a leaf"
  private static let titleOfSocketSet = "WebSocket set of a leaf"

  /// Measures requests of HTTP and of WebSockets: beside servers of HTTP, and beside the line protocol.
  func measureWeb(_ peers: [any Peer]) throws {
    guard let canopy = peers.lazy.compactMap({ $0 as? CanopyPeer }).first else { return }
    let keys = data.keys()
    let paths = keys.map { Array("/posts/\($0.text).json".utf8) }
    let file = try writePost(paths[0], of: canopy)
    let webPeers = try WebPeer.all.filter(systems.contains).map {
      try WebPeer($0, file: file, folder: folder)
    }
    defer { for peer in webPeers { peer.stop() } }
    if works.contains("rest-get") {
      try measure(gets(canopy, webPeers, paths))
      find(Self.titleOfGet, "operations per second", .hummingbird, .atLeast(0.9))
    }
    if works.contains("set") {
      try measure(sets(canopy, webPeers))
      let rate = "operations per second"
      find(Self.titleOfPut, rate, "SET", Self.titleOfSet, .atLeast(0.6))
      find(Self.titleOfSocketSet, rate, "SET", Self.titleOfSet, .atLeast(0.8))
    }
  }

  /// Writes the response to the GET of a post to the file that the other servers serve.
  private func writePost(_ path: [UInt8], of canopy: CanopyPeer) throws -> String {
    let request = Array("GET ".utf8) + path + Array(" HTTP/1.1\r\nHost: localhost\r\n\r\n".utf8)
    let reply = try Channel<HTTPFramer>(port: canopy.httpPort).exchange(request)
    guard !reply.frame.isError else { throw BenchFailure("GET of a post: \(reply.text)") }
    let file = folder + "/post.json"
    try Data(reply.bytes[reply.frame.contentStart...]).write(to: URL(fileURLWithPath: file))
    return file
  }

  private func gets(
    _ canopy: CanopyPeer, _ webPeers: [WebPeer], _ paths: [[UInt8]]
  ) throws -> [WebLoad] {
    let count = paths.count
    let next: (inout SplitMix64) -> LeafRequest = { .get(post: $0.below(count)) }
    let dialect = RESTDialect(
      paths: paths, content: { [data] in data.body($0) }, bytesMin: data.bodyBytes)
    let own = try WebLoad(
      .canopy, Self.titleOfGet, canopy.usage, dialect, webChannels(canopy.httpPort), next: next)
    return [own]
      + (try webPeers.map { peer in
        var dialect = dialect
        dialect.content = { [data] _ in data.body(0) }
        dialect.paths = [peer.name == .nginx ? Array("/post.json".utf8) : paths[0]]
        return try WebLoad(
          peer.name, Self.titleOfGet, peer.usage, dialect, webChannels(peer.port), next: next)
      })
  }

  private func sets(_ canopy: CanopyPeer, _ webPeers: [WebPeer]) throws -> [WebLoad] {
    let next: (inout SplitMix64) -> LeafRequest = { .set(number: $0.below(1_000_000_000)) }
    let token = try canopy.administratorToken()
    let rest = RESTDialect(
      paths: [], content: { _ in "" }, bytesMin: 0, fields: "Authorization: Bearer \(token)\r\n")
    let lines = try (0..<connections).map { _ in
      let channel = try Channel<LineFramer>(port: canopy.server.port)
      let reply = try channel.exchange(Array("AUTH \(token)\n".utf8))
      guard !reply.frame.isError else { throw BenchFailure("AUTH: \(reply.text)") }
      return channel
    }
    let sockets = try (0..<connections).map { _ in
      let channel = try Channel<WebSocketFramer>(port: canopy.httpPort)
      for request in [WebSocketBytes.upgrade, WebSocketBytes.logIn(token)] {
        let reply = try channel.exchange(request)
        guard !reply.frame.isError else { throw BenchFailure("auth: \(reply.text)") }
      }
      return channel
    }
    let own = [
      try WebLoad(
        .canopy, Self.titleOfSet, canopy.usage, LineLeafDialect(), lines, next: next),
      try WebLoad(
        .canopy, Self.titleOfPut, canopy.usage, rest, webChannels(canopy.httpPort), next: next),
      try WebLoad(
        .canopy, Self.titleOfSocketSet, canopy.usage, WebSocketDialect(), sockets, next: next),
    ]
    return own
      + (try webPeers.filter(\.answersPut).map { peer in
        try WebLoad(
          peer.name, Self.titleOfPut, peer.usage, rest, webChannels(peer.port), next: next)
      })
  }

  private func webChannels(_ port: Int) throws -> [Channel<HTTPFramer>] {
    try (0..<connections).map { _ in try Channel(port: port) }
  }

  /// Measures each load in each round, and adds their rows.
  private func measure(_ loads: [WebLoad]) throws {
    var samples = loads.map { _ in [Sample]() }
    for _ in 0..<plan.rounds {
      let pace = Pace(
        warmUpSeconds: plan.warmUpSeconds, seconds: plan.seconds, seed: nextSeed())
      for (index, load) in loads.enumerated() {
        load.usage.resetPeak()
        var sample = try load.run(pace)
        sample.peakBytes = load.usage.peakBytes()
        samples[index].append(sample)
      }
    }
    for (load, samples) in zip(loads, samples) {
      add(Report.Row(load.title, load.name, samples))
      for sample in samples where sample.wrong > 0 {
        fail(
          "\(load.title), \(load.name.rawValue): \(sample.wrong) wrong: \(sample.firstWrong ?? "")")
      }
    }
  }
}
