/// The answers of a server on a connection that speaks the realtime protocol, found in the bytes of its frames.
struct FuzzAnswers {
  /// The numbers of answers to the requests of each action.
  struct Depth: Equatable {
    var accepted: [String: Int] = [:]
    /// The refused requests, by action and status.
    var refused: [String: [String: Int]] = [:]
    /// The numbers of connections that the server has ended, by its reason.
    var endings: [String: Int] = [:]

    /// Adds the answers of another connection.
    mutating func add(_ other: Depth) {
      accepted.merge(other.accepted, uniquingKeysWith: +)
      refused.merge(other.refused) { $0.merging($1, uniquingKeysWith: +) }
      endings.merge(other.endings, uniquingKeysWith: +)
    }

    func answered(_ action: String) -> Int {
      accepted[action, default: 0] + refused[action, default: [:]].values.reduce(0, +)
    }

    /// The number of answers.
    var total: Int { FuzzConversation.actions.reduce(0) { $0 + answered($1) } }

    /// A line about each action.
    var lines: [String] {
      FuzzConversation.actions.map { action in
        let statuses = refused[action, default: [:]].sorted { $0.key < $1.key }
        return "\(action): \(accepted[action, default: 0]) ok"
          + statuses.map { ", \($0.value) \($0.key)" }.joined()
      } + endings.sorted { $0.key < $1.key }.map { "ended: \($0.value) \($0.key)" }
    }
  }

  private enum Phase {
    case head
    case frames
    /// The connection is no WebSocket, or its bytes are no frames.
    case ended
  }

  /// The bytes at the beginning of a text that are looked at.
  private static let textBytes = 96

  private(set) var depth = Depth()
  private let sent: [Int: String]
  private var phase = Phase.head
  private var bytes: [UInt8] = []
  /// The bytes of the present frame that are still to be dropped.
  private var dropped = 0

  /// - Parameter sent: the actions of the requests, by their numbers.
  init(_ sent: [Int: String]) {
    self.sent = sent
  }

  /// Takes the next bytes from the server.
  mutating func receive(_ new: some Collection<UInt8>) {
    guard phase != .ended else { return }
    let drops = min(dropped, new.count)
    dropped -= drops
    bytes += new.dropFirst(drops)
    if phase == .head { findEndOfHead() }
    while phase == .frames, takeFrame() {}
  }

  private mutating func findEndOfHead() {
    let end: [UInt8] = [13, 10, 13, 10]
    guard bytes.count >= end.count,
      let start = (0...(bytes.count - end.count)).first(where: {
        bytes[$0..<($0 + end.count)].elementsEqual(end)
      })
    else { return }
    phase = bytes.starts(with: "HTTP/1.1 101 ".utf8) ? .frames : .ended
    bytes.removeFirst(start + end.count)
  }

  /// Takes a frame. Returns false if more bytes are needed.
  private mutating func takeFrame() -> Bool {
    guard bytes.count >= 2 else { return false }
    var length = Int(bytes[1])
    let wide = length == 126 ? 2 : length == 127 ? 8 : 0
    guard length < 128, bytes.count >= 2 + wide else {
      if length >= 128 { phase = .ended }
      return false
    }
    if wide > 0 { length = bytes[2..<(2 + wide)].reduce(0) { $0 &<< 8 | Int($1) } }
    let start = 2 + wide
    let looked = min(max(0, length), Self.textBytes)
    guard bytes.count >= start + looked else { return false }
    if bytes[0] & 0x0F == 1 { note(bytes[start..<(start + looked)]) }
    let end = min(bytes.count, start + max(0, length))
    dropped = start + length - end
    bytes.removeFirst(end)
    return true
  }

  /// Notes the reason for which the server ends the connection.
  private mutating func noteEnding(_ text: ArraySlice<UInt8>) {
    let opening = Array(#"{"t":"c","d":{"t":"e","d":""#.utf8)
    guard text.starts(with: opening) else { return }
    let reason = text.dropFirst(opening.count).prefix { $0 != UInt8(ascii: "\"") }
    depth.endings[String(decoding: reason, as: UTF8.self), default: 0] += 1
  }

  /// Notes an answer, which begins with its number and its status.
  private mutating func note(_ text: ArraySlice<UInt8>) {
    let opening = Array(#"{"t":"d","d":{"r":"#.utf8)
    let middle = Array(#","b":{"s":""#.utf8)
    guard text.starts(with: opening) else { return noteEnding(text) }
    let digits = text.dropFirst(opening.count).prefix { $0 != UInt8(ascii: ",") }
    let rest = text.dropFirst(opening.count + digits.count)
    guard rest.starts(with: middle), let number = Int(String(decoding: digits, as: UTF8.self)),
      let action = sent[number]
    else { return }
    let status = rest.dropFirst(middle.count).prefix { $0 != UInt8(ascii: "\"") }
    let name = String(decoding: status, as: UTF8.self)
    if status.elementsEqual("ok".utf8) {
      depth.accepted[action, default: 0] += 1
    } else {
      depth.refused[action, default: [:]][name, default: 0] += 1
    }
  }
}
