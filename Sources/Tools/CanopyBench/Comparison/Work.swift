/// A kind of load that all systems are measured by, and how far ahead Canopy is to be.
struct Work {
  var name: String
  var title: String
  var mix: Mix
  var depth = 1
  /// At least so many times as many operations per second as each of these.
  var goals: [(peer: PeerName, ratio: Double)]

  static let all = [
    Work(name: "post", title: "POST", mix: .post, goals: [(.redis, 1), (.postgres, 2)]),
    Work(
      name: "star-one", title: "STAR, everyone on one post", mix: .starOne,
      goals: [(.redis, 1), (.postgres, 20)]),
    Work(
      name: "star-all", title: "STAR, spread over all posts", mix: .starAll,
      goals: [(.redis, 1), (.postgres, 2)]),
    Work(name: "show", title: "SHOW", mix: .show, goals: [(.redis, 1), (.postgres, 2)]),
    Work(
      name: "recent", title: "RECENT 100", mix: .recent, goals: [(.redis, 1.5), (.postgres, 3)]),
    Work(name: "top", title: "TOP me 10", mix: .top, goals: [(.redis, 1), (.postgres, 2)]),
    Work(name: "mixed", title: "mixed", mix: .blog, goals: [(.redis, 1), (.postgres, 2)]),
    Work(
      name: "mixed-16", title: "mixed, 16 in flight", mix: .blog, depth: 16,
      goals: [(.redis, 1), (.postgres, 3)]),
    Work(name: "ping", title: "PING", mix: .ping, goals: [(.echo, 0.9), (.redis, 1)]),
  ]

  /// What is measured in a way of its own.
  static let others = ["fan-out", "memory", "start-up", "scale"]

  static var names: [String] { all.map(\.name) + others }
}
