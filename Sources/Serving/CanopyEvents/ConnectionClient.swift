package import CanopyEngine
internal import CanopySession

/// The other side of a connection.
package struct ConnectionClient: ~Copyable {
  /// The protocol, for the administrator.
  let kind: ClientState.Kind
  /// The bytes that the connection takes while it is idle, unless another part of its pipeline reports them; then 0.
  let idleBytes: Int
  package internal(set) var address = "local"
  /// Whether a web page of a foreign site has opened the connection. Set it before the connection is active.
  package var isOfForeignPage = false
  /// The number in the list of the event loop; nil while the connection is not in the list.
  var id: Int64?
  /// The time of its beginning, in milliseconds since 1970.
  var since: Int64 = 0
  /// The group in which the long work of the connection takes turns; nil before the connection is active.
  package internal(set) var turns: TurnGroup?
  /// Whether the client has ended its sending side.
  var hasEnded = false
  /// Whether a request was successful.
  var hasSucceeded = false
  /// The place of the connection; nil for one that no gate has let in.
  var place: ConnectionPlace?
  /// The values that `place` has.
  private var standing = ConnectionPlace.Standing.new
  private var isBusy = false
  /// Reports the memory that the connection holds. Nil until that is enough to report. An idle connection that takes
  /// memory has it from its beginning.
  var share: MemoryBudget.Share?

  init(_ kind: ClientState.Kind, idleBytes: Int) {
    self.kind = kind
    self.idleBytes = idleBytes
  }

  /// Reports to the place what decides whether the connection may lose it.
  ///
  /// - Parameter isBusy: whether the client waits for a request. A client that does not read does not.
  mutating func report(to place: ConnectionPlace, isBusy: Bool, _ session: borrowing Session) {
    if isBusy != self.isBusy {
      self.isBusy = isBusy
      place.setBusy(isBusy)
      place.noteUse()
    }
    let standing: ConnectionPlace.Standing =
      switch session.identity {
      case .administrator: .administrator
      case .user: .kept
      case .anonymous: session.holdsNothing ? (hasSucceeded ? .used : .new) : .kept
      }
    guard standing != self.standing else { return }
    self.standing = standing
    place.set(standing)
  }
}
