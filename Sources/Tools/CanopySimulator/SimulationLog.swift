/// The log of a run: a line for each piece of work and each event, with the virtual time. The same seed gives the same
/// log, byte by byte.
struct SimulationLog {
  /// The text, if it is kept.
  private(set) var text = ""
  private let isKept: Bool
  /// A hash of all lines (FNV-1a), also if they are not kept.
  private(set) var hash: UInt64 = 0xCBF2_9CE4_8422_2325

  init(isKept: Bool = false) {
    self.isKept = isKept
  }

  /// Notes that a piece of work begins.
  mutating func noteStep(_ lane: Lane, _ now: Int64) {
    add(UInt64(truncatingIfNeeded: lane.number))
    add(UInt64(truncatingIfNeeded: now))
    if isKept { text += "\(now) \(lane.name) \(lane.number)\n" }
  }

  /// Notes an event.
  mutating func note(_ line: String, _ now: Int64) {
    for byte in line.utf8 { add(byte) }
    if isKept { text += "\(now) \(line)\n" }
  }

  private mutating func add(_ word: UInt64) {
    for shift in stride(from: 0, to: 64, by: 8) { add(UInt8(truncatingIfNeeded: word >> shift)) }
  }

  private mutating func add(_ byte: UInt8) {
    hash = (hash ^ UInt64(byte)) &* 0x100_0000_01B3
  }
}
