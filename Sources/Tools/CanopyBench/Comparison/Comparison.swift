import Foundation
import NIOCore

/// A run of the comparison. It prepares the data, starts the systems, measures one work after the other, and checks
/// at the end that the data of the systems agree with their replies.
final class Comparison {
  let plan: Plan
  let connections: Int
  let listeners: Int
  let works: Set<String>
  let systems: Set<PeerName>
  let data: DataSet
  let folder: String
  let folders: CanopyFolders?
  var report: Report
  /// The resident bytes of the posts.
  private var memory: [PeerName: Int] = [:]
  private let seed: UInt64
  private var roundNumber: UInt64 = 0

  init(
    _ plan: Plan, connections: Int, listeners: Int, seed: UInt64, data: DataSet,
    works: Set<String>, systems: Set<PeerName>
  ) throws {
    self.plan = plan
    self.connections = connections
    self.listeners = listeners
    self.seed = seed
    self.works = works
    self.systems = systems
    folder = try Children.makeFolder()
    say("seed \(seed)")
    var data = data
    if systems.contains(.canopy) {
      say("signing up \(connections) users")
      let folders = try CanopyFolders(in: folder, users: connections)
      data.uids = folders.uids
      self.folders = folders
    } else {
      folders = nil
    }
    self.data = data
    report = Report(setting: [
      "\(System.coreCount) cores, shared by the server and its clients; \(connections) connections; "
        + "\(shortText(Double(data.posts))) posts by \(shortText(Double(data.users))) users, "
        + "bodies of \(data.bodyBytes) bytes",
      "medians of \(plan.rounds) rounds of \(plan.seconds) s; seed \(seed)",
      "a sync of 4 KiB takes \(String(format: "%.2f", try Machine.syncMilliseconds(in: folder))) ms",
      "Canopy --durability full; Redis appendfsync always; PostgreSQL synchronous_commit on",
    ])
  }

  func run() throws {
    let wanted = Work.all.filter { works.contains($0.name) }
    if !works.isDisjoint(with: Work.all.map(\.name) + ["memory", "fan-out", "nodes"] + Work.web) {
      let peers = try startPeers(forPing: works.contains("ping"))
      for work in wanted { try measure(work, peers) }
      if works.contains("fan-out") { try attempt("fan-out") { try measureFanOut(peers) } }
      if !works.isDisjoint(with: Work.web) { try attempt("HTTP") { try measureWeb(peers) } }
      if works.contains("nodes") { try attempt("nodes") { try measureNodes(peers) } }
      for peer in peers { try peer.stop() }
      for case let peer as CanopyPeer in peers { try verify(peer.folderAtEnd) }
    }
    if works.contains("start-up") || works.contains("scale") {
      try attempt("many posts") { try measureManyPosts() }
    }
  }

  /// Runs a part. A failure is reported at the end, and the other parts run.
  private func attempt(_ what: String, _ body: () throws -> Void) throws {
    do {
      try body()
    } catch let failure as BenchFailure {
      fail("\(what): \(failure)")
    }
  }

  func fail(_ text: String) {
    say("FAILED: \(text)")
    report.failures.append(text)
  }

  /// Returns the seed of the next round. Each round has other requests, which are the same for each system.
  func nextSeed() -> UInt64 {
    roundNumber += 1
    return seed &+ roundNumber
  }
}

extension Comparison {
  fileprivate func startPeers(forPing: Bool) throws -> [any Peer] {
    var peers: [any Peer] = []
    if let folders {
      say("Canopy: loading")
      try folders.make(folder + "/canopy", holding: data)
      let empty = works.contains("memory") ? try CanopyPeer.residentBytes(folders) : 0
      let peer = try CanopyPeer(data, folder: folder + "/canopy", tokens: folders.tokens)
      say("Canopy: ready, process \(peer.usage.processID)")
      memory[.canopy] = peer.usage.residentBytes() - empty
      peers.append(peer)
    }
    if let folders, systems.contains(.canopyOnPostgres) {
      say("Canopy on PostgreSQL: loading")
      let moved = folder + "/canopy-on-postgres"
      try folders.make(moved, holding: data)
      let peer = try CanopyPeer(
        data, folder: moved, tokens: folders.tokens,
        movedTo: try PostgresServer(folder: folder + "/postgres-of-canopy"))
      peers.append(peer)
    }
    if systems.contains(.redis), !works.isSubset(of: Work.web) {
      say("Redis: loading")
      let peer = try RedisPeer(data, folder: folder + "/redis")
      let empty = try peer.info("used_memory_rss")
      try peer.load()
      peer.stop()
      try peer.start()
      memory[.redis] = try peer.info("used_memory_rss") - empty
      peers.append(peer)
    }
    if works.contains("memory") { findMemory() }
    if systems.contains(.postgres), !works.isSubset(of: ["memory", "fan-out", "nodes"] + Work.web) {
      say("PostgreSQL: loading")
      let peer = try PostgresPeer(data, folder: folder + "/postgres")
      try peer.load()
      peers.append(peer)
    }
    if forPing, systems.contains(.echo) { peers.append(try EchoPeer(folder: folder)) }
    for peer in peers { try peer.connect(connections) }
    return peers
  }

  private func findMemory() {
    guard let canopy = memory[.canopy], let redis = memory[.redis] else { return }
    report.findings.append(
      Report.Finding(
        work: "memory", measure: "bytes per post", canopy: Double(canopy) / Double(data.posts),
        against: PeerName.redis.rawValue, other: Double(redis) / Double(data.posts),
        goal: .atMost(1.2)))
    if let finding = report.findings.last { say(finding.markdown) }
  }

  fileprivate func measure(_ work: Work, _ peers: [any Peer]) throws {
    let peers = peers.filter { peer in
      peer is CanopyPeer || work.goals.contains { $0.peer == peer.name }
    }
    let before = try peers.map { try $0.totals() }
    var samples: [PeerName: [Sample]] = [:]
    for _ in 0..<plan.rounds {
      let seed = nextSeed()
      for peer in peers {
        samples[peer.name, default: []].append(
          try peer.measure(
            Round(
              mix: work.mix, depth: work.depth, warmUpSeconds: plan.warmUpSeconds,
              seconds: plan.seconds, posts: data.posts, seed: seed)))
      }
    }
    for (peer, before) in zip(peers, before) {
      let samples = samples[peer.name] ?? []
      add(Report.Row(work.title, peer.name, samples))
      for sample in samples where sample.wrong > 0 {
        fail(
          "\(work.title), \(peer.name.rawValue): \(sample.wrong) wrong: \(sample.firstWrong ?? "")")
      }
      if let before, let after = try peer.totals() {
        check(work, peer.name, before, after, samples)
        if let ranking = try peer.ranking() { check(work, peer.name, after, ranking) }
      }
    }
    for goal in work.goals {
      find(
        work.title, "operations per second", goal.peer, goal.ratio.map { .atLeast($0) })
    }
    findOnPostgres(work.title)
  }

  /// Checks that the data have grown by exactly the acknowledged writes.
  private func check(
    _ work: Work, _ name: PeerName, _ before: Totals, _ after: Totals, _ samples: [Sample]
  ) {
    var expected = before
    let posts = samples.reduce(0) { $0 + $1.posts }
    expected.posts += posts
    expected.copies += posts
    if work.mix == .starOne {
      let stars = samples.reduce(0) { $0 + $1.stars }
      expected.starCount += stars
      expected.stars += stars
    }
    if after != expected {
      fail("\(work.title), \(name.rawValue): holds \(after) and should hold \(expected)")
    }
  }

  /// Checks that the system keeps the ranking of all posts up to date.
  private func check(_ work: Work, _ name: PeerName, _ totals: Totals, _ ranking: Ranking) {
    let best = ranking.entries.first?.starCount ?? -1
    if !ranking.isSound || best < totals.starCount {
      fail("\(work.title), \(name.rawValue): \(totals) and a wrong \(ranking)")
    }
  }

  private func verify(_ folder: String) throws {
    let verdict = try Server.run(["verify", "--data", folder])
    if verdict.status != 0 { fail("canopy verify: \(verdict.output)") }
  }
}

extension Comparison {
  func add(_ row: Report.Row) {
    if report.rows.isEmpty { say(Report.Row.markdownHead.dropLast()) }
    say(row.markdown)
    report.rows.append(row)
  }

  /// Compares the rates of Canopy and a peer at a work for which both have rows.
  func find(_ work: String, _ measure: String, _ peer: PeerName, _ goal: Report.Goal?) {
    func rate(_ name: PeerName) -> Double? {
      report.rows.last { $0.work == work && $0.system == name }?.perSecond
    }
    guard let canopy = rate(.canopy), let other = rate(peer) else { return }
    report.findings.append(
      Report.Finding(
        work: work, measure: measure, canopy: canopy, against: peer.rawValue, other: other,
        goal: goal))
  }

  /// Compares the rate of a node on PostgreSQL with Canopy on a folder, and with PostgreSQL doing the work itself.
  private func findOnPostgres(_ work: String) {
    func rate(_ name: PeerName) -> Double? {
      report.rows.last { $0.work == work && $0.system == name }?.perSecond
    }
    guard let node = rate(.canopyOnPostgres) else { return }
    for name in [PeerName.canopy, .postgres] {
      guard let other = rate(name) else { continue }
      report.findings.append(
        Report.Finding(
          work: "\(work), a node on PostgreSQL", measure: "operations per second", canopy: node,
          against: name == .canopy ? "Canopy on SQLite" : name.rawValue, other: other, goal: nil))
    }
  }

  /// Compares the rate of Canopy at a work with its own at another.
  func find(
    _ work: String, _ measure: String, _ against: String, _ otherWork: String, _ goal: Report.Goal
  ) {
    func rate(_ work: String) -> Double? {
      report.rows.last { $0.work == work && $0.system == .canopy }?.perSecond
    }
    guard let canopy = rate(work), let other = rate(otherWork) else { return }
    report.findings.append(
      Report.Finding(
        work: work, measure: measure, canopy: canopy, against: against, other: other, goal: goal))
  }
}

/// Prints a line of progress without buffering, even if the output is a file.
func say(_ text: some StringProtocol) {
  print(text)
  fflush(nil)
}
