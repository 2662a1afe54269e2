internal import DequeModule

/// The listeners whose verdicts depend on the time, in the order in which they were authorized last.
///
/// A value type. Each operation costs O(1) on average.
struct TimedAuthorizations {
  /// The milliseconds for which a verdict that depends on the time holds, unless a commit writes a location that it
  /// depends on as well.
  static let interval: Int64 = 1_000
  /// The most listeners that one commit authorizes again because of the time.
  static let dueMax = 256

  /// The time of the last authorization of each listener, in milliseconds since 1970.
  private var times: [Int: Int64] = [:]
  /// The listeners in the order of these times. An entry with another time than `times` is obsolete.
  private var order: Deque<(id: Int, time: Int64)> = []

  var isEmpty: Bool { times.isEmpty }

  /// The number of entries in memory, obsolete ones included.
  var entryCount: Int { order.count }

  /// Notes that a listener was authorized.
  mutating func insert(_ id: Int, at time: Int64) {
    times[id] = time
    order.append((id, time))
    // Listeners may begin and end while no commit looks at the order.
    if order.count > 2 * times.count + 64 { order.removeAll { times[$0.id] != $0.time } }
  }

  mutating func remove(_ id: Int) {
    times[id] = nil
  }

  /// Removes and returns listeners that are to be authorized again, those that wait longest first. A clock that
  /// was set back makes all of them due.
  mutating func takeDue(at time: Int64) -> [Int] {
    var due: [Int] = []
    while due.count < TimedAuthorizations.dueMax, let first = order.first {
      let isCurrent = times[first.id] == first.time
      if isCurrent {
        guard time < first.time || time - first.time >= TimedAuthorizations.interval else { break }
        times[first.id] = nil
        due.append(first.id)
      }
      order.removeFirst()
    }
    return due
  }
}
