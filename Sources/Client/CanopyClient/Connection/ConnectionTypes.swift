internal import CanopyTree
internal import CanopyWire
internal import DequeModule
internal import NIOCore

/// The phase of the connection.
enum Phase {
  /// There is no connection: nothing needs one yet, or the application is offline.
  case idle
  /// The next attempt is scheduled.
  case waiting
  case connecting
  /// The connection is open; the client sends HELLO and its token.
  case greeting(any Transport)
  /// The client resends the writes that an earlier connection left unanswered, and waits for their
  /// replies. Listens that start afterwards include those writes.
  case resending(any Transport)
  /// The client can send requests.
  case ready(any Transport)

  var transport: (any Transport)? {
    switch self {
    case .greeting(let transport), .resending(let transport), .ready(let transport): transport
    default: nil
    }
  }

  var isReady: Bool {
    if case .ready = self { true } else { false }
  }
}

/// A sent request, with the receiver of its reply.
enum SentRequest {
  case hello(asked: Int64)
  /// The token of a session that continues from an earlier connection.
  case resumedSession(token: String)
  case session(SessionRequest)
  case listen(ListenTag)
  /// A write, with its encoded request, which is sent again if the reply is lost.
  case write(WriteID, number: Int64, EncodedRequest)
  case compareAndSet(TransactionID, Path, number: Int64, EncodedRequest)
  case disconnect(DisconnectOperation)
  case get(GetRequest)
  /// A request whose reply is ignored.
  case nothing
  /// A write of an earlier connection whose reply has arrived. As always, the tree gets the reply
  /// after the events of the write, and therefore after the listens before this entry.
  indirect case deferred(SentRequest, Result<[UInt8], WireError>)

  var isDeferred: Bool {
    if case .deferred = self { true } else { false }
  }

  /// The encoded request of a write.
  var encoded: EncodedRequest? {
    switch self {
    case .write(_, _, let request), .compareAndSet(_, _, _, let request): request
    default: nil
    }
  }
}

/// The limits in HELLO that a client must observe.
struct ServerLimits {
  /// The longest line, in bytes without its terminator. The server closes a connection that exceeds
  /// it.
  var lineBytes = 1024 * 1024
  /// The most outstanding requests. The server reads no more until it has answered some.
  var outstandingRequests = 1024
  /// The most writes of a client that the server remembers until the client acknowledges their
  /// replies. The server refuses more.
  var clientWrites = 4096

  /// The limits of the realtime protocol, whose servers announce none: a message has at most 16 MiB.
  static let realtime = ServerLimits(lineBytes: 16 * 1024 * 1024)
}

/// The subscriptions of one connection, with the tags of the tree's listens.
struct ServerSubscriptions {
  private var byNumber: [Int64: ListenTag] = [:]
  /// The number of initial events that have not arrived, by subscription.
  private var initialLeft: [Int64: Int64] = [:]
  private var numbers: [ListenTag: Int64] = [:]
  /// Unanswered listens that are no longer needed.
  private var unwanted: Set<ListenTag> = []
  /// Whether all initial events of the answered listens have arrived.
  var areUpToDate: Bool { initialLeft.isEmpty }
  /// The reason of the last refusal or cancellation of a listen.
  var lastRefusal: DatabaseError?

  /// Records the reply to a listen.
  ///
  /// - Returns: whether the listen is still needed; if not, the caller ends the subscription.
  mutating func begin(_ tag: ListenTag, _ number: Int64, initial: Int64) -> Bool {
    if initial > 0 { initialLeft[number] = initial }
    if unwanted.remove(tag) != nil { return false }
    numbers[tag] = number
    byNumber[number] = tag
    return true
  }

  /// Records that a listen is no longer needed.
  ///
  /// - Returns: the number of its subscription if it is known; the caller ends it.
  mutating func end(_ tag: ListenTag) -> Int64? {
    guard let number = numbers.removeValue(forKey: tag) else {
      unwanted.insert(tag)
      return nil
    }
    byNumber[number] = nil
    return number
  }

  /// Records that the server refused a listen.
  ///
  /// - Returns: whether the listen is still needed.
  mutating func refuse(_ tag: ListenTag) -> Bool {
    unwanted.remove(tag) == nil
  }

  /// Returns the listen of an event; nil if it is no longer needed.
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

/// The identities of a client's writes for the server. A write whose reply was lost can be sent
/// again under the same identity, and the server applies it once.
///
/// The writes of the tree have ids of their own, which ascend and survive restarts if persistence
/// is enabled. Compare-and-set requests are numbered here, under a separate client name.
struct WriteNumbers {
  /// The client names, each from a write number on: one for each earlier process that left pending
  /// writes, and at the end that of this process. Only one process uses a name, because another
  /// process may reuse a number.
  private var names: [(first: Int64, name: String)]
  let transactionClient: String
  /// The number up to which the server may forget the writes. Replies come in the order of the
  /// requests, also across connections.
  private(set) var writesSeen: Int64 = 0
  private(set) var transactionsSeen: Int64 = 0
  /// The writes sent by this process above `writesSeen`, ascending.
  private var unseen: Deque<Int64> = []
  /// The highest number of a write that has ended: it was answered, or never sent.
  private var lastEnded: Int64 = 0
  private var lastTransaction: Int64 = 0

  init(_ random: () -> UInt64) {
    names = [(1, WriteNumbers.name(random))]
    transactionClient = WriteNumbers.name(random)
  }

  /// Returns 128 random bits as text: a unique name that nobody can guess.
  static func name(_ random: () -> UInt64) -> String {
    let digits = [random(), random()].map { String($0, radix: 36) }
    return digits.joined(separator: "-")
  }

  /// Returns the client name of a write, and the number up to which its replies are seen.
  func client(of number: Int64) -> (name: String, seen: Int64) {
    let index = names.lastIndex { $0.first <= number } ?? 0
    guard names.indices.contains(index) else { return (transactionClient, 0) }
    let seen = writesSeen >= names[index].first ? min(writesSeen, number - 1) : 0
    return (names[index].name, seen)
  }

  /// Restores the names of earlier processes that left pending writes.
  ///
  /// - Parameters:
  ///   - text: the text of `namesText`.
  ///   - last: the number of the last pending write.
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

  /// The names, one on each line.
  var namesText: String {
    names.map { "\($0.first) \($0.name)\n" }.joined()
  }

  /// Returns the number of a write for the server. The ids of the tree may begin at 0.
  func number(of id: WriteID) -> Int64 { id.number &+ 1 }

  /// The number of writes that the server may have to remember.
  var unseenCount: Int { unseen.count }

  /// Records that a write was sent for the first time by this process.
  mutating func recordSent(_ number: Int64) {
    unseen.append(number)
  }

  /// Records that a write has ended: its reply arrived, or it is never sent.
  ///
  /// A write that is too long to be sent ends before earlier writes whose replies are outstanding.
  /// Those must not be acknowledged: the server refuses a write that was acknowledged as seen.
  mutating func endWrite(_ number: Int64) {
    lastEnded = max(lastEnded, number)
    if unseen.first == number {
      unseen.removeFirst()
    } else {
      unseen.removeAll { $0 == number }
    }
    let ended = unseen.first.map { min(lastEnded, $0 - 1) } ?? lastEnded
    writesSeen = max(writesSeen, ended)
  }

  /// Records that the outstanding writes are abandoned: no reply is awaited.
  mutating func abandonWrites() {
    unseen = []
    writesSeen = max(writesSeen, lastEnded)
  }

  /// Returns the number of the next compare-and-set request.
  mutating func nextTransaction() -> Int64 {
    lastTransaction += 1
    return lastTransaction
  }

  /// Records that the reply to a compare-and-set request arrived.
  mutating func endTransaction(_ number: Int64) {
    transactionsSeen = max(transactionsSeen, number)
  }
}
