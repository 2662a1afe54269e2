/// The reasons why there is no connection: the latest one for errors, and those that were logged.
struct ConnectionTrouble {
  /// The most reasons that are logged between two connections. A server may word each reason
  /// differently.
  static let loggedMax = 10

  /// The reason of the last failure; nil after a connection.
  private(set) var last: String?
  /// The reason why the client does not try to connect; nil while it does.
  var offline: String?
  private var logged: Set<String> = []

  /// Records a failure.
  ///
  /// - Parameter isAttempt: whether there was no working connection.
  /// - Returns: whether to log it: each reason of an attempt once between two connections, up to `loggedMax`.
  mutating func failed(_ reason: String, isAttempt: Bool) -> Bool {
    last = reason
    guard isAttempt, logged.count < ConnectionTrouble.loggedMax else { return false }
    return logged.insert(reason).inserted
  }

  /// Records a connection with which the server has begun to answer.
  mutating func connected() {
    last = nil
    logged = []
  }
}
