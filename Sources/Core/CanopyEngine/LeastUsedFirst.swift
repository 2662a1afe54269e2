internal import HeapModule

/// The members that wait for turns. The member that has used the least time lately is first; among equal members it is
/// the one that has waited longest.
///
/// The time that a member has used halves in each second (see `UsedTime`). A member that has used much time waits until
/// the other waiting members have used as much. It does not wait for ever: when new members come, each second brings
/// its time closer to theirs by half. A new member counts as one that has used `leastTime`.
///
/// The caller takes several turns before it knows their cost. Until it charges a turn, the turn counts as `leastTime`.
///
/// A value type. Each operation costs O(log waiting members) on average.
struct LeastUsedFirst<Member: Hashable & Sendable>: Sendable {
  /// An entry of the heap. It is obsolete if its number differs from that of its member.
  private struct Place: Comparable {
    let used: UsedTime
    let arrival: Int
    let number: Int
    let member: Member

    static func < (left: Place, right: Place) -> Bool {
      left.used == right.used ? left.arrival < right.arrival : left.used < right.used
    }

    static func == (left: Place, right: Place) -> Bool {
      left.used == right.used && left.arrival == right.arrival
    }
  }

  private struct Account {
    var used: UsedTime
    /// The order among members that have used the same time.
    var arrival: Int
    /// The number of its entry in the heap; nil if it does not wait.
    var place: Int?
    /// The number of its turns that are not settled.
    var unsettled = 0
  }

  /// The time that a turn costs at least. A small write costs about as much.
  static var leastTime: Duration { .microseconds(20) }

  private var accounts: [Member: Account] = [:]
  private var places = Heap<Place>()
  /// The number of members that wait.
  private(set) var waiting = 0
  /// The members whose turns are not settled.
  private var unsettled: [Member] = []
  private var lastNumber = 0
  private var tick = 0

  /// Whether no member waits, and no used time still counts.
  var isForgotten: Bool { accounts.isEmpty }

  /// Whether a member waits, or has used time that still counts.
  func knows(_ member: Member) -> Bool { accounts[member] != nil }

  /// Sets the tick of the clock (see `UsedTime`). At the beginning of a second, forgets the members whose used time no
  /// longer counts.
  mutating func advance(to tick: Int) {
    guard tick > self.tick else { return }
    let isSameSecond = tick / UsedTime.ticksPerSecond == self.tick / UsedTime.ticksPerSecond
    self.tick = tick
    if isSameSecond { return }
    let least = UsedTime(Self.leastTime, at: tick)
    accounts = accounts.filter {
      $0.value.place != nil || $0.value.unsettled > 0 || $0.value.used > least
    }
  }

  /// Notes that a member waits for a turn. Returns false if it waits already.
  @discardableResult
  mutating func wait(_ member: Member) -> Bool {
    let least = UsedTime(Self.leastTime, at: tick)
    var account = accounts[member] ?? Account(used: least, arrival: nextNumber())
    guard account.place == nil else { return false }
    if account.unsettled == 0 {
      account.used = max(account.used, least)
      account.arrival = nextNumber()
    }
    place(member, &account)
    waiting += 1
    accounts[member] = account
    return true
  }

  /// Removes and returns the member whose turn it is; nil if none waits.
  mutating func next() -> Member? {
    while let place = places.popMin() {
      guard var account = accounts[place.member], account.place == place.number else { continue }
      account.place = nil
      account.unsettled += 1
      if account.unsettled == 1 { unsettled.append(place.member) }
      accounts[place.member] = account
      waiting -= 1
      return place.member
    }
    return nil
  }

  /// Charges a member for a turn that took some time. `settle` must follow.
  mutating func charge(_ member: Member, _ time: Duration) {
    var account =
      accounts[member]
      ?? Account(used: UsedTime(Self.leastTime, at: tick), arrival: nextNumber())
    account.used = account.used.adding(max(time, Self.leastTime), at: tick)
    account.arrival = nextNumber()
    if account.unsettled == 0, account.place != nil {
      account.unsettled = 1
      unsettled.append(member)
    }
    accounts[member] = account
  }

  /// Ends the turns that were taken. Only the time that was charged counts as used.
  mutating func settle() {
    for member in unsettled {
      guard var account = accounts[member] else { continue }
      account.unsettled = 0
      if account.place != nil { place(member, &account) }
      accounts[member] = account
    }
    unsettled.removeAll(keepingCapacity: true)
    if places.count > 2 * waiting + 64 {
      places = Heap(places.unordered.filter { accounts[$0.member]?.place == $0.number })
    }
  }

  private mutating func place(_ member: Member, _ account: inout Account) {
    let number = nextNumber()
    let used = account.used.adding(Self.leastTime * account.unsettled, at: tick)
    account.place = number
    places.insert(Place(used: used, arrival: account.arrival, number: number, member: member))
  }

  private mutating func nextNumber() -> Int {
    lastNumber += 1
    return lastNumber
  }
}
