internal import CanopyEngine
internal import CanopyTree

/// The bytes of the values that the subscriptions of each client get from the shared hub.
///
/// For each commit the hub encodes the value of each view that the commit changes, or the changes, and the replies of
/// all connections wait for that. One value has a bound, and so has the number of subscriptions, but their product
/// would be large. So the values of a remote network are bounded together, and those of a connection from this machine.
///
/// A value counts with the bytes that it had last, as it begins or in an event. Events of other forms count in the same
/// way: a view counts with the last of its large events, because the next one may be as large. Subscriptions of one
/// network to the same query count once, because the hub encodes their events once. Small values do not count:
/// `EventHubs.networkMax` of them have no more than `bytesMax`.
///
/// Complexity: O(1) for each event with a value that counts. Use it on the loop of the hub only.
final class SharedValues {
  /// The most bytes of the values of one client.
  static let bytesMax = 1024 * 1024
  /// The most bytes of a value that does not count.
  static let smallBytesMax = bytesMax / EventHubs.networkMax

  /// A client whose values are bounded together.
  fileprivate enum Owner: Hashable {
    case network(ByteString)
    case connection(ObjectIdentifier)
  }

  /// The place in the sums of a subscription that counts. An object, so that the many subscriptions that do not count
  /// have no room for it.
  final class Place {
    fileprivate let values: SharedValues
    fileprivate let owner: Owner
    fileprivate let listening: Listening

    fileprivate init(_ values: SharedValues, _ owner: Owner, _ listening: Listening) {
      (self.values, self.owner, self.listening) = (values, owner, listening)
    }
  }

  private struct View {
    var bytes = 0
    var subscriptions = 0
  }

  private struct Sum {
    var bytes = 0
    var views: [Listening: View] = [:]
  }

  private var sums: [Owner: Sum] = [:]

  /// Notes the bytes of a value of a subscription. Returns whether the values of its client have more than `bytesMax`.
  func note(_ bytes: Int, of subscription: HubSubscription, _ listening: Listening) -> Bool {
    guard bytes > SharedValues.smallBytesMax, let owner = owner(of: subscription) else {
      return false
    }
    var sum = sums.removeValue(forKey: owner) ?? Sum()
    var view = sum.views[listening] ?? View()
    if subscription.sharedValue == nil {
      subscription.sharedValue = Place(self, owner, listening)
      view.subscriptions += 1
    }
    sum.bytes += bytes - view.bytes
    view.bytes = bytes
    sum.views[listening] = view
    sums[owner] = sum
    return sum.bytes > SharedValues.bytesMax
  }

  private func owner(of subscription: HubSubscription) -> Owner? {
    if let network = subscription.network { return .network(network) }
    return subscription.subscriber.map { .connection(ObjectIdentifier($0)) }
  }

  fileprivate func remove(_ place: Place) {
    guard var sum = sums.removeValue(forKey: place.owner),
      var view = sum.views.removeValue(forKey: place.listening)
    else { return assertionFailure("a value has lost its place") }
    view.subscriptions -= 1
    if view.subscriptions > 0 {
      sum.views[place.listening] = view
    } else {
      sum.bytes -= view.bytes
    }
    if !sum.views.isEmpty { sums[place.owner] = sum }
  }
}

extension HubSubscription {
  /// Counts the values of the subscription no longer, because it leaves the shared hub.
  func leaveSharedValues() {
    if let place = sharedValue.take() { place.values.remove(place) }
  }
}
