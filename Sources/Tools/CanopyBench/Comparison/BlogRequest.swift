import CanopyTree

/// A request of a user, independent of the system. Each `Dialect` encodes it.
enum BlogRequest: Equatable {
  case ping
  /// A new post with a number of its own.
  case post(number: Int)
  /// Adds a star to a post, or removes it.
  case star(post: Int)
  case comment(post: Int)
  case show(post: Int)
  /// The newest hundred posts with all fields.
  case recent
  /// The ten posts of the user with the most stars.
  case top

  static let recentCount = 100
  static let topCount = 10
  static let comment = "A comment of a length that comments have when they say thank you."
}

/// The shares of requests in a work.
enum Mix {
  case ping
  case post
  /// Stars of all users on one post.
  case starOne
  case starAll
  /// One half posts, one half stars on all posts.
  case writes
  case show
  case recent
  case top
  /// Four fifths reads of all kinds, one tenth stars, one twentieth comments, one twentieth posts.
  case blog

  /// The post that all users star. No other work stars it, so that its stars can be counted.
  static let popularPost = 0

  /// Returns the next random request.
  ///
  /// - Parameter posts: the number of posts at the start, which are shown and starred.
  func next(posts: Int, _ random: inout SplitMix64) -> BlogRequest {
    switch self {
    case .ping: .ping
    case .post: .post(number: posts + random.below(900_000_000))
    case .starOne: .star(post: Mix.popularPost)
    case .starAll: .star(post: 1 + random.below(posts - 1))
    case .writes: (random.below(2) == 0 ? Mix.post : .starAll).next(posts: posts, &random)
    case .show: .show(post: random.below(posts))
    case .recent: .recent
    case .top: .top
    case .blog:
      switch random.below(60) {
      case 0..<16: .recent
      case 16..<32: .show(post: random.below(posts))
      case 32..<48: .top
      case 48..<54: .star(post: 1 + random.below(posts - 1))
      case 54..<57: .comment(post: 1 + random.below(posts - 1))
      default: .post(number: posts + random.below(900_000_000))
      }
    }
  }
}

extension SplitMix64 {
  /// Returns a number from 0 to below a bound, which is below 2³². It is faster than `Int.random(in:using:)`, and
  /// uniform enough for a benchmark (Lemire 2019, without the rejection).
  mutating func below(_ bound: Int) -> Int {
    Int(((next() >> 32) &* UInt64(bound)) >> 32)
  }
}
