import CanopyWire
import Testing

/// Expects that a request was refused with a code, and with a sentence that contains a text. A violation prints the request
/// and the whole error.
func expectRefusal(
  _ error: WireError?, of request: String, _ code: WireError.Code, _ text: String = "",
  at location: SourceLocation = #_sourceLocation
) {
  let isRight = error?.code == code && (text.isEmpty || error?.sentence.contains(text) == true)
  guard !isRight else { return }
  Issue.record(
    """
    a request should be refused with \(code.rawValue) \(text)
    request: \(request)
    error:   \(error.map { "\($0)" } ?? "none")
    """, sourceLocation: location)
}
