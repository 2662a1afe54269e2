import Testing

@testable import CanopyAccounts

@Suite struct AccountEnvironmentTests {
  @Test(
    arguments: [
      (0, 0, 0), (1, 999_999, 1_000), (1, 1_000_000, 1_001), (-1, 0, -1_000),
      (9_223_372_036_854_775, 807_000_000, .max), (9_223_372_036_854_775, 808_000_000, .max),
      (9_223_372_036_854_776, 0, .max), (100_000_000_000_000_000, 0, .max), (.max, 0, .max),
      (-9_223_372_036_854_776, 0, .min), (.min, 0, .min),
    ] as [(Int64, Int64, Int64)])
  func `a time too large for milliseconds becomes the largest number`(
    _ seconds: Int64, _ nanoseconds: Int64, _ milliseconds: Int64
  ) {
    #expect(
      AccountEnvironment.milliseconds(seconds: seconds, nanoseconds: nanoseconds) == milliseconds)
  }
}
