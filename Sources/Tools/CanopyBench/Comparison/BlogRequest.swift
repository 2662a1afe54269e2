import CanopyTree

/// One thing that a user asks for, in the words of no system: each `Dialect` puts it into its own.
enum BlogRequest: Equatable {
  case ping
  /// A new post, told from others by a number.
  case post(number: Int)
  /// A star put on a post or taken off.
  case star(post: Int)
  case comment(post: Int)
  case show(post: Int)
  /// The newest hundred posts, whole.
  case recent
  /// The ten of the user's own posts with the most stars.
  case top

  static let recentCount = 100
  static let topCount = 10
  static let comment = "A comment of a length that comments have when they say thank you."
}

/// What a work asks for, request by request.
enum Mix {
  case ping
  case post
  /// Everyone on one post.
  case starOne
  case starAll
  case show
  case recent
  case top
  /// Four fifths reading in equal parts, a tenth stars, a twentieth comments, a twentieth posts.
  case blog

  /// The post that everyone stars. No other work stars it, so that its stars can be counted.
  static let popularPost = 0

  /// Draws the next request.
  ///
  /// - Parameter posts: how many posts there were at the start; those are shown and starred.
  func next(posts: Int, _ random: inout SplitMix64) -> BlogRequest {
    switch self {
    case .ping: .ping
    case .post: .post(number: posts + random.below(900_000_000))
    case .starOne: .star(post: Mix.popularPost)
    case .starAll: .star(post: 1 + random.below(posts - 1))
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
  /// A number from 0 up to, and without, a bound below 2³². Faster than `Int.random(in:using:)`, and as
  /// even as a benchmark needs (Lemire 2019, without the rejection).
  mutating func below(_ bound: Int) -> Int {
    Int(((next() >> 32) &* UInt64(bound)) >> 32)
  }
}
