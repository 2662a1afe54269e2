/// How much is measured, and for how long.
struct Plan {
  /// Rounds of each work; each goes through all systems, so that a slow moment of the machine meets
  /// one round of each and not all rounds of one.
  var rounds: Int
  var warmUpSeconds: Double
  var seconds: Double
  /// The posts of "start-up with 1,000,000 posts".
  var manyPosts: Int
  var fewPosts = 1_000
  var startUps: Int

  /// About ten minutes.
  static let full = Plan(
    rounds: 7, warmUpSeconds: 0.4, seconds: 1.4, manyPosts: 1_000_000, startUps: 3)
  /// About two minutes. Tells what is far off, not what is a little off.
  static let quick = Plan(
    rounds: 3, warmUpSeconds: 0.15, seconds: 0.45, manyPosts: 200_000, startUps: 1)
}
