internal import CanopyTree

/// The plain writes that are still to be sent on the present connection, oldest first.
///
/// Adding and taking cost O(1); beginning anew, on a new connection, O(n log n).
struct SendQueue: Sendable {
  private var ids: [WriteID] = []
  private var head = 0

  var first: WriteID? { head < ids.count ? ids[head] : nil }

  mutating func append(_ id: WriteID) {
    ids.append(id)
  }

  mutating func removeFirst() {
    head += 1
    if head == ids.count || head > 1024 && head > ids.count / 2 {
      ids.removeFirst(head)
      head = 0
    }
  }

  mutating func replaceAll(_ all: [WriteID]) {
    ids = all.sorted()
    head = 0
  }
}
