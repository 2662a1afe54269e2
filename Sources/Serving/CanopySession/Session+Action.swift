public import CanopyAccounts
public import CanopyEngine
public import CanopyWire

extension Session {
  /// Something for the front end to do.
  public enum Action {
    /// Carry out a read now, and encode its reply; or call `postponeRead` if it takes long.
    case read(ReadRequest)
    /// Carry out a request, and call `finish` with the slot.
    case begin(Request, Slot)
    /// Carry out a read now that has begun before, as for `read`. Its reply is the next one.
    case readAgain(ReadRequest)
    /// Encode a reply.
    case send(Reply)
    /// Encode a reply when the events are sent that led to the present snapshot.
    case sendAfterEvents(Reply)
    /// Start or stop reading input.
    case setReading(Bool)
    /// Find the changes since a commit, or the present state if the client knows no commit: call `restart` with the
    /// snapshot up to which they lead, and then `resumed`.
    case resume(subscription: Int64, since: Int64?, Listening)
    /// Remove the listener of a subscription. With an error, send the client a `cancel` event as well.
    case unlisten(subscription: Int64, WireError.Code?)
    /// Remove the listeners of all subscriptions, because the connection ends. The session no longer charges their bytes.
    case endSubscriptions(bytes: Int)
    /// Authorize the subscriptions for another user, and call `reauthorized`.
    case reauthorize([(subscription: Int64, Listening)], Identity)
    /// Note that the connection no longer holds a login.
    case release(UserSession)
    /// Make the on-disconnect writes, after the requests of the last user of the connection.
    case carryOut([ArmedWrite], Identity)
    /// Close the connection when everything is sent.
    case close
  }

  /// The answer to a request, with the changes that it makes to its connection.
  public struct Completion: Sendable {
    /// The reply.
    public var reply: Reply
    /// The user of the connection from now on; nil for no change.
    public var identity: Identity?
    /// The login of `identity`, if that is an administrator who has used a pass.
    public var login: AdministratorLogin?
    /// The on-disconnect writes from now on; nil for no change.
    public var armed: [ArmedWrite]?
    /// The namespace of the requests that follow; nil for no change.
    public var namespace: NamespaceLease?
    /// Whether the connection closes after the reply.
    public var closes = false

    /// Creates an answer.
    public init(_ reply: Reply, identity: Identity? = nil) {
      self.reply = reply
      self.identity = identity
    }

    /// Creates the answer for a failure.
    public init(_ error: WireError) {
      self.init(.failure(error))
    }
  }
}
