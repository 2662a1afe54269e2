/// The amount and the time of the measurements.
struct Plan {
  /// The number of rounds of each work. Each round measures all systems, so that a slow moment of the machine affects
  /// one round of each system and not all rounds of one.
  var rounds: Int
  var warmUpSeconds: Double
  var seconds: Double
  /// The number of posts for the work "start-up with 1,000,000 posts".
  var manyPosts: Int
  var fewPosts = 1_000
  var startUps: Int

  /// The default, which takes about ten minutes.
  static let full = Plan(
    rounds: 7, warmUpSeconds: 0.4, seconds: 1.4, manyPosts: 1_000_000, startUps: 3)
  /// A short run of about two minutes. It shows large differences only.
  static let quick = Plan(
    rounds: 3, warmUpSeconds: 0.15, seconds: 0.45, manyPosts: 200_000, startUps: 1)
}
