import CanopySession
import CanopyWire
import Synchronization

/// The codes of replies, in the order in which they came; nil for a success. Safe to use from any thread.
final class ReplyCodes: Sendable {
  private let codes = Mutex<[WireError.Code?]>([])

  var all: [WireError.Code?] { codes.withLock { $0 } }

  func add(_ reply: Reply) {
    let code: WireError.Code? = if case .failure(let error) = reply { error.code } else { nil }
    codes.withLock { $0.append(code) }
  }
}
