/// A kind of load for all systems, with the goals for Canopy.
struct Work {
  var name: String
  var title: String
  var mix: Mix
  var depth = 1
  /// The systems that do the same work, and the least ratio of operations per second to each; nil for no goal.
  var goals: [(peer: PeerName, ratio: Double?)]

  static let all = [
    Work(name: "post", title: "POST", mix: .post, goals: [(.redis, 1), (.postgres, 2)]),
    Work(
      name: "star-one", title: "STAR, everyone on one post", mix: .starOne,
      goals: [(.redis, 1), (.postgres, nil)]),
    Work(
      name: "star-all", title: "STAR, spread over all posts", mix: .starAll,
      goals: [(.redis, 1), (.postgres, 2.5)]),
    Work(name: "show", title: "SHOW", mix: .show, goals: [(.redis, 1), (.postgres, 2)]),
    Work(
      name: "recent", title: "RECENT 100", mix: .recent, goals: [(.redis, 1.5), (.postgres, 3)]),
    Work(name: "top", title: "TOP me 10", mix: .top, goals: [(.redis, 1), (.postgres, 2)]),
    Work(name: "mixed", title: "mixed", mix: .blog, goals: [(.redis, 1), (.postgres, 2)]),
    Work(
      name: "mixed-16", title: "mixed, 16 in flight", mix: .blog, depth: 16,
      goals: [(.redis, 1), (.postgres, 3)]),
    Work(name: "ping", title: "PING", mix: .ping, goals: [(.echo, 0.9), (.redis, 0.95)]),
  ]

  /// The names of the works with a measurement of their own.
  static let others = ["fan-out", "memory", "start-up", "scale", "nodes"] + web

  /// The names of the measurements of the HTTP port.
  static let web = ["rest-get", "set"]

  /// The names of the measurements with a journal in PostgreSQL.
  static let postgres = ["post", "star-one", "star-all", "show", "top", "mixed", "nodes"]

  static var names: [String] { all.map(\.name) + others }
}
