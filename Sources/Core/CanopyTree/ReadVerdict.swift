/// The decision whether a caller may read a location, and how long it holds.
///
/// It stays the same for the same caller while nothing is written at, above or below its `paths`.
public struct ReadVerdict: Equatable, Sendable {
  /// Whether the caller may read.
  public var isAllowed: Bool
  /// The locations that were read for the verdict. If empty, it does not depend on the tree.
  public var paths: [Path]
  /// Whether it depends on the time as well. Then a commit repeats the authorization of a listener if the last one is a
  /// second old.
  public var dependsOnTime: Bool
  /// Whether it depends on the query. If not, it holds for all queries of the caller at the location.
  public var dependsOnQuery: Bool

  /// Creates a verdict.
  ///
  /// - Parameter dependsOnQuery: true by default, so that a verdict is never used for another query by mistake.
  public init(
    isAllowed: Bool, paths: [Path] = [], dependsOnTime: Bool = false, dependsOnQuery: Bool = true
  ) {
    self.isAllowed = isAllowed
    self.paths = paths
    self.dependsOnTime = dependsOnTime
    self.dependsOnQuery = dependsOnQuery
  }
}
