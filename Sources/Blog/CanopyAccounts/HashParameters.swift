/// What one argon2id hash costs: memory, passes over it, and lanes worked on at once.
///
/// A value exists only within bounds, because parameters are also read back from stored text: a
/// damaged or planted row must not make the server ask for all of the machine's memory.
public struct HashParameters: Sendable, Equatable {
  /// Memory in KiB.
  public let memoryKibibytes: UInt32
  /// Passes over the memory.
  public let passes: UInt32
  /// Lanes; each further one costs a thread.
  public let lanes: UInt32

  /// The most memory, in KiB: 256 MiB.
  public static let memoryKibibytesMax: UInt32 = 262_144
  /// The most passes.
  public static let passesMax: UInt32 = 16
  /// The most lanes.
  public static let lanesMax: UInt32 = 4

  /// 19,456 KiB, 2 passes, 1 lane: OWASP's minimum for argon2id, some 30 ms on a small machine.
  public static let standard = HashParameters(unchecked: 19_456, passes: 2, lanes: 1)

  /// The cheapest that argon2 allows: for tests, worthless against a thief.
  public static let cheapest = HashParameters(unchecked: 8, passes: 1, lanes: 1)

  /// The parameters, or nil outside the bounds or with less than 8 KiB for each lane.
  public init?(memoryKibibytes: UInt32, passes: UInt32, lanes: UInt32) {
    guard (1...Self.lanesMax).contains(lanes), (1...Self.passesMax).contains(passes),
      (8 * lanes...Self.memoryKibibytesMax).contains(memoryKibibytes)
    else { return nil }
    self.init(unchecked: memoryKibibytes, passes: passes, lanes: lanes)
  }

  private init(unchecked memoryKibibytes: UInt32, passes: UInt32, lanes: UInt32) {
    self.memoryKibibytes = memoryKibibytes
    self.passes = passes
    self.lanes = lanes
  }
}
