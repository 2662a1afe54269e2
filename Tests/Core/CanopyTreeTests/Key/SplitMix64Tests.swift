import CanopyTree
import Testing

/// The generator against the reference implementation's numbers.
struct SplitMix64Tests {
  @Test func `a seed gives the numbers of the reference implementation`() {
    var random = SplitMix64(seed: 1_234_567)
    let numbers = (0..<5).map { _ in random.next() }
    #expect(
      numbers == [
        6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423,
        4_593_380_528_125_082_431, 16_408_922_859_458_223_821,
      ])
  }

  @Test func `one in n is true that often`() {
    var random = SplitMix64(seed: 1)
    let count = (0..<10_000).count { _ in random.oneIn(10) }
    #expect(900...1_100 ~= count)
  }
}
