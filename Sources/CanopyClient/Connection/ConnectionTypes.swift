internal import CanopyTree
internal import CanopyWire
internal import DequeModule
internal import NIOCore

/// How far a connection is.
enum Phase {
  /// There is none and none is being made: nothing has been asked for yet, or it is not wanted.
  case idle
  /// The next attempt is waited for.
  case waiting
  case connecting
  /// It has been made; the server is being told who this is.
  case greeting(Transport)
  /// Writes that were sent on an earlier connection and not answered are sent again, and their answers
  /// awaited: what is listened to next has them in it then.
  case settling(Transport)
  /// Requests can be sent.
  case ready(Transport)

  var transport: Transport? {
    switch self {
    case .greeting(let transport), .settling(let transport), .ready(let transport): transport
    default: nil
    }
  }

  var isReady: Bool {
    if case .ready = self { true } else { false }
  }
}

/// A request that was sent, and what its answer is for.
enum Awaited {
  case hello(asked: Int64)
  /// The token of a session that goes on from an earlier connection.
  case resumedSession(token: String)
  case session(SessionRequest)
  case listen(ListenTag)
  /// With its line, which is sent again if the answer is lost.
  case write(WriteID, number: Int64, line: ByteBuffer)
  case compareAndSet(TransactionID, number: Int64, line: ByteBuffer)
  case disconnect(DisconnectOperation)
  case get(GetRequest)
  /// One whose answer means nothing.
  case nothing
  /// A write that was sent on an earlier connection, and whose answer has come. The tree gets the answer
  /// when it has been told what the write did, as always: so after the listens before it here.
  indirect case settled(Awaited, Result<[UInt8], WireError>)

  var isSettled: Bool {
    if case .settled = self { true } else { false }
  }

  /// The line of a write.
  var line: ByteBuffer? {
    switch self {
    case .write(_, _, let line), .compareAndSet(_, _, let line): line
    default: nil
    }
  }
}

/// What HELLO says about bounds, as far as a client must keep them by itself.
struct ServerLimits {
  /// Bytes of a line, without its end: one that is longer costs the connection.
  var lineBytes = 1024 * 1024
  /// Requests that may be outstanding: more are not read before others are answered.
  var outstandingRequests = 1024
  /// Writes of a client that the server remembers until it is told that their answers were seen: it
  /// refuses more.
  var clientWrites = 4096
}

/// The server's subscriptions of one connection, by the names of the tree's listens.
struct ServerSubscriptions {
  private var byNumber: [Int64: ListenTag] = [:]
  /// The events that tell the state at the beginning and have not come, by number.
  private var initialLeft: [Int64: Int64] = [:]
  private var numbers: [ListenTag: Int64] = [:]
  /// Listens that are not wanted any more and were not answered yet.
  private var unwanted: Set<ListenTag> = []
  /// Whether the state at the beginning has been told of all that were answered.
  var areUpToDate: Bool { initialLeft.isEmpty }
  /// Why the last listen was refused or ended.
  var lastRefusal: DatabaseError?

  /// Notes what the server answered.
  ///
  /// - Returns: whether it is still wanted; if not, it is to be ended.
  mutating func begin(_ tag: ListenTag, _ number: Int64, initial: Int64) -> Bool {
    if initial > 0 { initialLeft[number] = initial }
    if unwanted.remove(tag) != nil { return false }
    numbers[tag] = number
    byNumber[number] = tag
    return true
  }

  /// Notes that a listen is not wanted any more.
  ///
  /// - Returns: the number of its subscription, which is to be ended, if it is known.
  mutating func end(_ tag: ListenTag) -> Int64? {
    guard let number = numbers.removeValue(forKey: tag) else {
      unwanted.insert(tag)
      return nil
    }
    byNumber[number] = nil
    return number
  }

  /// Notes that the server has refused a listen.
  ///
  /// - Returns: whether anybody wants to know.
  mutating func refuse(_ tag: ListenTag) -> Bool {
    unwanted.remove(tag) == nil
  }

  /// The listen that an event is for; nil for one that is not wanted any more.
  mutating func take(_ event: SyncEvent) -> ListenTag? {
    if let left = initialLeft[event.subscription] {
      initialLeft[event.subscription] = left > 1 ? left - 1 : nil
    }
    guard let tag = byNumber[event.subscription] else { return nil }
    if case .cancel = event.change {
      byNumber[event.subscription] = nil
      numbers[tag] = nil
      initialLeft[event.subscription] = nil
    }
    return tag
  }
}

/// The numbers that tell a client's writes from one another at the server, so that one whose answer was
/// lost can be sent again and is made once.
///
/// The writes of the tree have their own names, which ascend and outlive the process where persistence is
/// on; compare-and-set requests are numbered here, under a client name of their own.
struct WriteNumbers {
  /// The names of this client for writes, each from a number on: one for each process that left pending
  /// writes, and that of this process at the end. A name is used by one process alone, as another one may
  /// use a number again.
  private var names: [(first: Int64, name: String)]
  let transactionClient: String
  /// Writes up to this number need not be remembered by the server any more: answers come in the order of
  /// the requests, also after a break.
  private(set) var writesSeen: Int64 = 0
  private(set) var transactionsSeen: Int64 = 0
  /// Writes that were sent by this process and are above `writesSeen`, ascending.
  private var unseen: Deque<Int64> = []
  /// The highest number of a write that has ended: it was answered, or was never sent.
  private var lastEnded: Int64 = 0
  private var lastTransaction: Int64 = 0

  init(_ random: () -> UInt64) {
    names = [(1, WriteNumbers.name(random))]
    transactionClient = WriteNumbers.name(random)
  }

  /// 128 random bits as text: nobody else has this name, or guesses it.
  static func name(_ random: () -> UInt64) -> String {
    let digits = [random(), random()].map { String($0, radix: 36) }
    return digits.joined(separator: "-")
  }

  /// The name under which a write is sent, and up to which number its answers are seen.
  func client(of number: Int64) -> (name: String, seen: Int64) {
    let index = names.lastIndex { $0.first <= number } ?? 0
    guard names.indices.contains(index) else { return (transactionClient, 0) }
    let seen = writesSeen >= names[index].first ? min(writesSeen, number - 1) : 0
    return (names[index].name, seen)
  }

  /// Takes up the names under which earlier processes left pending writes.
  ///
  /// - Parameters:
  ///   - text: as `namesText` had it.
  ///   - last: the number of the last of the writes.
  mutating func restore(_ text: String, pending: [WriteID], after last: Int64) {
    var earlier: [(first: Int64, name: String)] = []
    for line in text.utf8.split(separator: UInt8(ascii: "\n")) {
      let words = line.split(separator: UInt8(ascii: " ")).map { String(Substring($0)) }
      if words.count == 2, let first = Int64(words[0]) { earlier.append((first, words[1])) }
    }
    let own = names.last?.name ?? transactionClient
    names = earlier.filter { $0.first <= last } + [(last + 1, own)]
    let needed = Set(pending.map { client(of: number(of: $0)).name })
    names.removeAll { $0.name != own && !needed.contains($0.name) }
  }

  /// The names, a line each.
  var namesText: String {
    names.map { "\($0.first) \($0.name)\n" }.joined()
  }

  /// The number of a write. Those of the tree may begin at 0.
  func number(of id: WriteID) -> Int64 { id.number &+ 1 }

  /// How many writes the server may have to remember.
  var unseenCount: Int { unseen.count }

  /// A write is sent, for the first time by this process.
  mutating func sentWrite(_ number: Int64) {
    unseen.append(number)
  }

  /// Notes that a write has ended: its answer has come, or it is not sent at all.
  ///
  /// A write that is too long to be sent ends before the writes that were sent earlier. Their answers
  /// are still to come, and the server refuses a write that it was told is seen.
  mutating func sawWrite(_ number: Int64) {
    lastEnded = max(lastEnded, number)
    if unseen.first == number {
      unseen.removeFirst()
    } else {
      unseen.removeAll { $0 == number }
    }
    let ended = unseen.first.map { min(lastEnded, $0 - 1) } ?? lastEnded
    writesSeen = max(writesSeen, ended)
  }

  /// Notes that the writes that were sent are given up: no answer is waited for.
  mutating func gaveUpWrites() {
    unseen = []
    writesSeen = max(writesSeen, lastEnded)
  }

  /// The number of the next compare-and-set request.
  mutating func nextTransaction() -> Int64 {
    lastTransaction += 1
    return lastTransaction
  }

  /// The answer to a compare-and-set request has come.
  mutating func sawTransaction(_ number: Int64) {
    transactionsSeen = max(transactionsSeen, number)
  }
}
