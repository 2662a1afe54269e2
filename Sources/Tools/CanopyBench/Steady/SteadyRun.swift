import Foundation
import NIOCore

/// The measurements of the command `steady`, system by system.
final class SteadyRun {
  struct Plan {
    var peakSeconds: Double
    /// The seconds at the share of the peak.
    var seconds: Double
    var share: Double
    var connections: Int
    var seed: UInt64
  }

  private let plan: Plan
  private let data: DataSet
  private let folder: String
  private let folders: CanopyFolders
  private(set) var report: SteadyReport

  init(_ plan: Plan, data: DataSet) throws {
    self.plan = plan
    folder = try Children.makeFolder()
    say("signing up \(plan.connections) users")
    folders = try CanopyFolders(in: folder, users: plan.connections)
    self.data = data.with(uids: folders.uids)
    report = SteadyReport(setting: [
      "\(System.coreCount) cores, shared by the server and its clients; \(plan.connections) connections; "
        + "\(shortText(Double(data.posts))) posts at the start",
      "half posts with bodies of \(data.bodyBytes) bytes, half stars spread over all posts",
      "\(shortText(plan.peakSeconds)) s at full speed, then \(shortText(plan.seconds)) s "
        + "at \(shortText(plan.share)) of this speed; seed \(plan.seed)",
      "a sync of 4 KiB takes \(String(format: "%.2f", try Machine.syncMilliseconds(in: folder))) ms",
    ])
  }

  /// Measures a system: without checkpoints at full speed, with them at full speed, and at the share of the latter.
  func measure(_ name: PeerName) throws {
    var outcome = SteadyReport.SystemOutcome(name: name)
    var peer = try start(name, .later)
    var sample = try peer.run(round(seconds: plan.peakSeconds))
    outcome.add(.withoutCheckpoints, sample)
    try peer.stop()

    peer = try start(name, .byDefault)
    sample = try peer.run(round(seconds: plan.peakSeconds))
    outcome.add(.fullSpeed, sample)
    let rate = sample.perSecond * plan.share
    say("\(name.rawValue): \(shortText(rate)) requests a second")
    let before = peer.usage.writtenBytes()
    let journaledBefore = try journaledBytes(of: peer)
    sample = try peer.run(round(seconds: plan.seconds, requestsPerSecond: rate))
    outcome.add(.fixedRate, sample)
    let posts = Double(max(1, sample.posts))
    outcome.writtenBytesPerPost = Double(peer.usage.writtenBytes() - before) / posts
    if let journaledBefore, let journaled = try journaledBytes(of: peer) {
      outcome.journaledBytesPerPost = (journaled - journaledBefore) / posts
    }
    outcome.peakBytes = peer.usage.peakBytes()
    try peer.stop()
    if let peer = peer as? CanopyPeer {
      let verdict = try Server.run(["verify", "--data", peer.folderAtEnd])
      if verdict.status != 0 { throw BenchFailure("canopy verify: \(verdict.output)") }
    }
    for checkpoints in [Checkpoints.later, .byDefault] {
      try? FileManager.default.removeItem(atPath: folder(of: name, checkpoints))
    }
    report.systems.append(outcome)
    say(outcome.markdown)
  }

  /// Returns the bytes of the commits in the journal of Canopy.
  private func journaledBytes(of peer: any Peer) throws -> Double? {
    guard let peer = peer as? CanopyPeer else { return nil }
    return Server.metric("canopy_journal_bytes_total", in: try Server.metrics(peer.httpPort))
  }

  private func round(seconds: Double, requestsPerSecond: Double? = nil) -> Round {
    Round(
      mix: .writes, warmUpSeconds: 2, seconds: seconds, posts: data.posts, seed: plan.seed,
      requestsPerSecond: requestsPerSecond, hasTimeline: true)
  }

  private func folder(of name: PeerName, _ checkpoints: Checkpoints) -> String {
    "\(folder)/\(name.rawValue)-\(checkpoints)"
  }

  private func start(_ name: PeerName, _ checkpoints: Checkpoints) throws -> any Peer {
    say("\(name.rawValue): loading")
    let folder = folder(of: name, checkpoints)
    let peer: any Peer
    switch name {
    case .redis:
      let redis = try RedisPeer(data, folder: folder, checkpoints: checkpoints)
      try redis.load()
      peer = redis
    case .postgres:
      let postgres = try PostgresPeer(data, folder: folder, checkpoints: checkpoints)
      try postgres.load()
      peer = postgres
    default:
      try folders.make(folder, holding: data)
      peer = try CanopyPeer(
        data, folder: folder, tokens: folders.tokens, checkpoints: checkpoints)
    }
    try peer.connect(plan.connections)
    return peer
  }
}

extension DataSet {
  /// Returns the data set with other ids of the first users.
  func with(uids: [String]) -> DataSet {
    var data = self
    data.uids = uids
    return data
  }
}
